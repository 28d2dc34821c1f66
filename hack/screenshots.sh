#!/usr/bin/env bash
# Takes the pictures of docs/ui.md: it serves the page of kubectl drover ui with an invented fleet, and photographs it with Chromium (CHROMIUM=...).
set -euo pipefail
cd "$(dirname "$0")/.."

chromium="${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}"
if [[ -z "$chromium" ]]; then
	echo "screenshots: there is no Chromium; on Debian: apt-get install chromium" >&2
	exit 1
fi
port=18090
work="$(mktemp -d)"
go test -c -o "$work/ui.test" ./internal/cli/ui
(cd internal/cli/ui && DROVER_UI_DEMO="${UI_NODES:-600}" DROVER_UI_PORT="$port" exec "$work/ui.test" -test.run '^TestDemo$' -test.timeout 0) >"$work/log" 2>&1 &
server="$!"
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in {1..100}; do
	(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
	sleep 0.1
done

# picture NAME QUERY [SIZE] [FLAG...] takes a picture of a view.
picture() {
	local name="$1" query="$2" size="${3:-1440,900}"
	"$chromium" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" --window-size="$size" --timeout=4000 \
		"${@:4}" --screenshot="${SCREENSHOTS:-docs/images}/$name.png" "http://127.0.0.1:$port/$query#token=demo" 2>"$work/chromium"
	echo "$name.png"
}

picture ui-fleet "?selected=node-00005"
picture ui-waits "?view=waits"
picture ui-node "?view=node&node=node-00005" 1440,1100
