#!/usr/bin/env bash
# Checks what a review should not have to: what is generated is up to date, the modules are tidy, the code is formatted,
# the linter finds nothing, and the files keep their budget. It fails when a step changed a file, and shows the difference; work that
# is not committed is no reason to fail. All steps run, also after one that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

max_lines=500
max_median=150

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failures=()
skipped=()

# snapshot PATH... prints a git tree of those files as they are now, tracked or not. The index and the repository stay as they are.
snapshot() {
	rm -f "$work/index"
	own_objects git add --all -- "$@" && own_objects git write-tree
}

# own_objects COMMAND... runs git with an index and a store of objects of our own on top of the repository's.
own_objects() {
	local store
	store="$(git rev-parse --path-format=absolute --git-path objects)"
	mkdir -p "$work/objects"
	GIT_INDEX_FILE="$work/index" GIT_OBJECT_DIRECTORY="$work/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$store" "$@"
}

# step NAME COMMAND... runs one step and prints how long it took. A command that returns 77 could not do its work here.
step() {
	local name="$1" begin="$SECONDS" status=0 result="ok"
	shift
	printf '%s ...\n' "$name"
	"$@" >"$work/output" 2>&1 || status="$?"
	case "$status" in
	0) ;;
	77) result="not done" skipped+=("$name") ;;
	*) result="failed" failures+=("$name") ;;
	esac
	((status == 0)) || sed 's/^/    /' "$work/output"
	printf '%s: %s (%d s)\n' "$name" "$result" "$((SECONDS - begin))"
}

# unchanged PATHS COMMAND... runs a command that writes under PATHS, and fails when something there is different afterwards.
unchanged() {
	local before after
	local -a paths
	read -ra paths <<<"$1"
	shift
	before="$(snapshot "${paths[@]}")" || return 1
	"$@" || return "$?"
	after="$(snapshot "${paths[@]}")" || return 1
	own_objects git --no-pager diff --exit-code --stat --patch "$before" "$after" >"$work/diff" && return
	echo "It changed files. They are as they should be now: look at them and commit them."
	head -n 200 "$work/diff"
	return 1
}

# sources PATTERN... lists the files that git knows, or would take.
sources() {
	local file
	git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
		[[ ! -f "$file" ]] || echo "$file"
	done
}

generate() { make --no-print-directory generate; }

# page builds the page of kubectl drover ui again.
page() {
	if ! command -v npm >/dev/null; then
		echo "There is no npm, so it is unknown whether internal/cli/ui/dist is built from ui/."
		return 77
	fi
	hack/ui.sh build
}

# tidy FOLDER [FLAG...] tidies a module. Without a network, a module that is not in the cache cannot be looked up.
tidy() {
	local folder="$1" offline='dial tcp|no such host|connection refused|network is unreachable|i/o timeout|module lookup disabled'
	shift
	(cd "$folder" && go mod tidy "$@") 2>"$work/tidy" && return
	if grep -qE "$offline" "$work/tidy"; then
		grep -m1 -E "$offline" "$work/tidy"
		echo "The module proxy does not answer, so it is unknown whether this module is tidy."
		return 77
	fi
	cat "$work/tidy"
	return 1
}

# format lists the files that gofmt would write in another way.
format() {
	local wrong
	wrong="$(sources '*.go' | xargs gofmt -l)" || return 1
	[[ -n "$wrong" ]] || return 0
	printf 'not formatted, run gofmt -w:\n%s\n' "$wrong"
	return 1
}

# lengths holds Go files and scripts to their budget. Generated files have none.
lengths() {
	sources '*.go' '*.sh' ':!*/zz_generated*' | xargs wc -l | grep -v ' total$' | sort -n |
		awk -v most="$max_lines" -v middle="$max_median" '
			BEGIN { bad = 0 }
			{ lines[NR] = $1 }
			$1 > most { printf "%s has %d lines, the most is %d: cut it by what its parts are about\n", $2, $1, most; bad = 1 }
			END {
				median = lines[int((NR + 1) / 2)]
				if (median > middle) { printf "the median file has %d lines, the most is %d\n", median, middle; bad = 1 }
				exit bad
			}'
}

workflows() {
	local actionlint
	actionlint="$(hack/tool.sh actionlint)" && "$actionlint" -shellcheck= -pyflakes=
}

begin="$SECONDS"
echo "verify: with empty caches this takes six minutes, later on less than one"
# The first run builds the generator and shows its progress, so it is not kept back.
hack/generate-crds.sh --build-only
step "generate" unchanged "api docs config charts bundle" generate
for module in . sandbox tools tools/*/; do
	module="${module%/}"
	step "go mod tidy in ${module/#./the root module}" unchanged "$module/go.mod $module/go.sum" tidy "$module"
done
for requirements in sandbox/versions/v*.mod; do
	name="$(basename "$requirements")"
	step "go mod tidy of $requirements" unchanged "$requirements ${requirements%.mod}.sum" tidy sandbox/versions "-modfile=$name"
done
step "ui" unchanged "internal/cli/ui/dist" page
step "gofmt" format
step "length of files" lengths
step "words" hack/words.sh
# The workflows, which nothing but GitHub can run. shellcheck and pyflakes are not everywhere, so it does not look for them.
step "workflows" workflows
# As above, for the linter.
hack/lint.sh --build-only
step "lint" hack/lint.sh

list() { printf ' %s;' "$@"; }

if ((${#failures[@]} > 0)); then
	echo "verify: failed after $((SECONDS - begin)) s:$(list "${failures[@]}") see above"
	exit 1
fi
if ((${#skipped[@]} > 0)); then
	echo "verify: nothing is wrong in what could be looked at ($((SECONDS - begin)) s). Not done:$(list "${skipped[@]}") see above"
	exit 0
fi
echo "verify: all is well ($((SECONDS - begin)) s)"
