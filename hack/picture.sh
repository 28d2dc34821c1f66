#!/usr/bin/env bash
# Draws docs/images/demo.svg from a run of the demo, with https://github.com/charmbracelet/freeze.
set -euo pipefail
cd "$(dirname "$0")/.."

text="$(mktemp)"
trap 'rm -f "$text"' EXIT
make demo | sed -E 's#/[^ ]*/tmp\.[A-Za-z0-9]+/##g' | awk '
	/== / { shown = /== (Preview a change|Apply it|Keys of other writers|Start it|Relax the budget|End the maintenance)/ }
	/^\$ kubectl (wait|get nm -o wide|get events)/ { skipped = 1; next }
	/^(\$ |$)/ || /== / { skipped = 0 }
	shown && !skipped { print substr($0, 1, 150) }
' >"$text"
go run github.com/charmbracelet/freeze@v0.2.2 "$text" --language ansi --font.family "DejaVu Sans Mono" --font.size 12 --padding 16 --output docs/images/demo.svg
