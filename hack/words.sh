#!/usr/bin/env bash
# Checks that code and pages use the vocabulary of docs/glossary.md: fails, and names the line and the word to use, where one stands that
# hack/words.txt lists.
set -euo pipefail
cd "$(dirname "$0")/.."

found=0
while IFS=$'\t' read -r words instead; do
	[[ "$words" != \#* ]] || continue
	if git grep --untracked -nwiE -e "$words" -- '*.go' '*.md' '*.sh' '*.yaml' '*.yml' '*.tpl' 'Makefile' ':!*/zz_generated*'; then
		echo "    instead of ${words//|/, }: ${instead}"
		found=1
	fi
done <hack/words.txt
exit "$found"
