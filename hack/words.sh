#!/usr/bin/env bash
# Checks that code and pages use the vocabulary of docs/glossary.md: fails, and names the line and the word to use, where one stands that
# hack/words.txt lists.
set -euo pipefail
cd "$(dirname "$0")/.."

found=0
while IFS=$'\t' read -r words instead; do
	[[ "$words" != \#* ]] || continue
	# Each word also at the beginning of a sentence. The operator Fence Agents Remediation has its name from others.
	capitalized="$(sed -E 's/(^|\|)([a-z])/\1\U\2/g' <<<"$words")"
	if git grep --untracked -nwE -e "$words|$capitalized" -- \
		'*.go' '*.md' '*.sh' '*.yaml' '*.yml' '*.tpl' '*.txt' Makefile ':!hack/words.txt' ':!*/zz_generated*' ':!test/openshift/crds' | grep -viE 'fenc[e][- ]agents'; then
		echo "    instead of ${words//|/, }: ${instead}"
		found=1
	fi
done <hack/words.txt
exit "$found"
