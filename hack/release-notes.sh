#!/usr/bin/env bash
# Prints the notes of a release, in Markdown, from its section of CHANGELOG.md: hack/release-notes.sh v1.2.3. Without a version it prints what is not
# released yet. CHANGELOG names another file. A version without a section, or with an empty one, is an error: nothing is released without notes.
set -euo pipefail
cd "$(dirname "$0")/.."

version="${1:-Unreleased}"
changelog="${CHANGELOG:-CHANGELOG.md}"

notes="$(awk -v version="${version#v}" '
	/^## \[/ {
		title = $0
		sub(/^## \[/, "", title)
		sub(/\].*/, "", title)
		inside = title == version
		next
	}
	/^\[[^]]+\]: / { next } # the addresses at the end
	inside { print }' "$changelog")"
# Without the empty lines around.
notes="$(sed -e '/./,$!d' <<<"$notes")"
if [[ -z "$notes" ]]; then
	echo "release-notes: $changelog has no section [${version#v}], or nothing in it" >&2
	exit 1
fi
printf '%s\n' "$notes"
