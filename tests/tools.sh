#!/bin/sh
# Fetches what tests run beside Python, from Debian's packages, into the folder named: promtool,
# prometheus and amtool are unpacked there, no service is installed. Chromium and kcat need their
# libraries, so they are installed, by root only. Without them the tests that need them say so and are skipped.
set -eu
folder=$1
command -v apt-get >/dev/null || { echo "no apt-get: tests of alerts and of the page are skipped"; exit 1; }
mkdir -p "$folder/debs"
if [ "$(id -u)" = 0 ]; then apt-get update -qq; fi
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ]; then
  echo "Installing Chromium for the tests of the page ..."
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    chromium chromium-driver fonts-dejavu-core >"$folder/chromium.log" 2>&1
fi
if ! command -v kcat >/dev/null && [ "$(id -u)" = 0 ]; then
  echo "Installing kcat for the test of the documented clients ..."
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends kcat \
    >"$folder/kcat.log" 2>&1 || echo "no kcat: its commands are shown in docs/clients.md, not run"
fi
echo "Fetching promtool, prometheus and amtool into $folder ..."
(cd "$folder/debs" && apt-get download -qq prometheus prometheus-alertmanager 2>/dev/null)
for deb in "$folder"/debs/*.deb; do dpkg -x "$deb" "$folder/root"; done
rm -r "$folder/debs"
# Debian's Alertmanager reads its templates from there, wherever it lies itself.
templates=usr/share/prometheus/alertmanager
if [ "$(id -u)" = 0 ] && [ ! -e "/$templates/default.tmpl" ]; then
  mkdir -p "/$templates" && cp "$folder/root/$templates"/*.tmpl "/$templates"
fi
for tool in promtool prometheus prometheus-alertmanager amtool; do
  ln -sf "root/usr/bin/$tool" "$folder/$tool"
done
