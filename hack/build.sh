#!/usr/bin/env bash
# Builds programs into bin/, and shows how far it is: hack/build.sh {programs|operator|operator-race|sandbox|core|node|kubernetes}...
#   programs    drover and kubectl-drover
#   operator    drover-operator, the operator that integration tests run, with the faults of test/operator/fault
#   operator-race  drover-operator-race, the same with the race detector
#   sandbox     drover-sandbox, the control plane for demos, tests and benchmarks
#   core        drover-sandbox-core, which is drover-sandbox without kube-controller-manager and kube-scheduler, into the folder CORE_FOLDER
#   node        drover-sandbox-node, kubelets and hollow nodes for it
#   kubernetes  kube-apiserver, kube-controller-manager and kube-scheduler of another version, K8S=1.31.14, into bin/kubernetes/v1.31.14: a control
#               plane starts them in place of its own where KUBEBUILDER_ASSETS names that folder
# hack/build.sh --check {sandbox|node} builds nothing; the exit code is 1 unless the program is there for these sources.
# The first build compiles Kubernetes. All of them share the flags that decide what Go's build cache can reuse, so that no package of Kubernetes
# is compiled twice. What belongs to the sandbox is kept in bin/cache under a key of everything that goes into it: later runs with the same
# sources do nothing. It may run several times at once: the same thing is built by one of them, and the others wait. What it starts ends with it.
set -euo pipefail
cd "$(dirname "$0")/.."

# CGO_ENABLED and -trimpath are part of the key of Go's build cache: go vet and go test in sandbox/ without them compile Kubernetes once more.
export CGO_ENABLED=0
# Compilers are short-lived and collect little garbage that is worth the time: off until a process has 1 GiB. That saves a fifth of the time.
compiler_memory=(env GOGC=off GOMEMLIMIT=1GiB)
kept=2 # builds in the cache, of each program and version
version_modules=sandbox/versions # where the requirements of other versions of Kubernetes are
other="" # the other version, as in the name of its requirements

# Beside what is built, so that a rename replaces that at once.
mkdir -p bin
work="$(mktemp -d "$PWD/bin/.build-XXXXXX")"
reporter=""
running=""
trap cleanup EXIT
# Not by exit alone: where a signal comes as the script ends, bash ends in the middle of cleanup.
trap 'cleanup; exit 130' INT
trap 'cleanup; exit 143' TERM

# cleanup may run twice, when a signal comes before it has begun to ignore them.
cleanup() {
	trap '' INT TERM # a second signal does not leave half of this undone
	# A signal may come after a process was started and before it is noted in running.
	local group="${running:-$(jobs -pr | tail -n 1)}"
	stop_reporter
	if [[ -n "$group" ]]; then
		# Go removes its own temporary files when it is interrupted. What it has started may not end with it, and a shell goes on if the command
		# that it waits for has just ended.
		kill -INT -- "-$group" 2>/dev/null || true
		for _ in {1..50}; do
			kill -0 -- "-$group" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL -- "-$group" 2>/dev/null || true
		wait "$group" 2>/dev/null || true
		running=""
	fi
	rm -rf "$work"
}

stop_reporter() {
	[[ -z "$reporter" ]] || kill "$reporter" 2>/dev/null || true
	reporter=""
}

# run runs a command that may take long, in a process group of its own, so that this script can end all of it at any time.
run() {
	local status=0
	set -m
	"$@" &
	running="$!"
	set +m
	wait "$running" || status="$?"
	running=""
	return "$status"
}

# lock waits until no other process builds the same thing in this checkout. Without flock two do the same work, and neither disturbs the other.
lock() {
	command -v flock >/dev/null || return 0
	exec 9>>"bin/.build-$1.lock"
	if ! flock -n 9; then
		echo "build: $1: waiting for process $(cat "bin/.build-$1.lock"), which builds it" >&2
		run flock 9
	fi
	echo "$$" >"bin/.build-$1.lock"
}
unlock() { if command -v flock >/dev/null; then flock -u 9; fi; }

# folder and packages of what can be built.
folder() {
	case "$1" in
	programs | operator*) echo . ;;
	kubernetes) echo "$version_modules" ;;
	*) echo sandbox ;;
	esac
}
packages() {
	case "$1" in
	programs) echo ./cmd/drover ./cmd/kubectl-drover ;;
	operator | operator-race) echo ./test/operator ;;
	sandbox | core) echo ./cmd/drover-sandbox ;;
	node) echo ./cmd/drover-sandbox-node ;;
	kubernetes) echo ./cmd/drover-sandbox-kubernetes ;;
	*)
		echo "build: nothing is called '$1'; there are programs, operator, operator-race, sandbox, core, node and kubernetes" >&2
		exit 2
		;;
	esac
}

# choose_version sets the other version to that of K8S.
choose_version() {
	other="v${K8S:?is the other version of Kubernetes, for example 1.31.14}"
	[[ ! -f "$version_modules/$other.mod" ]] || return 0
	echo "build: kubernetes: $version_modules has no $other.mod, only $(cd "$version_modules" && echo v*.mod)" >&2
	return 2
}

# kubernetes_version prints the version that a program is built from.
kubernetes_version() {
	if [[ "$1" == kubernetes ]]; then
		echo "$other"
	else
		awk '$1 == "k8s.io/kubernetes" { print $2; exit }' sandbox/go.mod
	fi
}

# module_flags prints the flags that choose requirements other than those of go.mod, and the race detector.
module_flags() {
	case "$1" in
	kubernetes) echo "-modfile=$other.mod" ;;
	operator-race) echo -race ;;
	esac
}

# tags prints the build tags.
tags() { [[ "$1" != core ]] || echo drover_core; }

# link_flags prints the flags of the linker.
link_flags() {
	local package="github.com/drover-io/drover/internal/version" kubernetes_version
	if [[ "$1" == operator* ]]; then
		echo "-s -w" # without a version, a commit alone links nothing anew
	elif [[ "$1" == programs ]]; then
		echo "-s -w -X $package.version=$(version) -X $package.commit=$(commit)"
	else
		# kubectl complains about a server without a version.
		kubernetes_version="$(kubernetes_version "$1")"
		echo "-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes_version -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes_version"
	fi
}
version() { echo "${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}"; }
commit() { echo "${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}"; }

# key prints a hash of the sources, the modules and the Go tool.
key() {
	{
		go env GOVERSION GOOS GOARCH GOFLAGS CGO_ENABLED GOEXPERIMENT &&
			link_flags "$1" &&
			sources "$1" | LC_ALL=C sort | xargs sha256sum
	} | sha256sum | cut -c1-20
}

# sources prints the files of the repository that a program of the sandbox is built from.
sources() {
	if [[ "$1" == kubernetes ]]; then
		find "$version_modules/cmd" "$version_modules/$other.mod" "$version_modules/$other.sum" -type f
	else
		find sandbox api internal/apitest/builder test/cluster test/eventually test/openshift test/realnode test/vcenter provider/*.go provider/kwok config/crd \
			-path "$version_modules" -prune -o -type f ! -name '*_test.go' ! -name '*.md' -print
	fi
}

# downloads shows the modules that Go downloads as a number.
downloads() {
	awk '/^go: downloading / { if (++n % 50 == 0) print "build: " n " modules downloaded" >"/dev/stderr"; next } { print >"/dev/stderr" }'
}

# plan writes the packages that are to be compiled, each with a measure of the time that takes: the size of its sources, and 170 kB for starting
# the compiler and reading what the package imports.
plan() {
	local what="$1"
	# shellcheck disable=SC2046,SC2016 # several packages, one flag or none; a template
	go -C "$(folder "$what")" list $(module_flags "$what") -trimpath -tags "$(tags "$what")" -deps \
		-f '{{if .Stale}}{{$p := .ImportPath}}{{$d := .Dir}}{{range .GoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}{{end}}' \
		$(packages "$what") 2> >(downloads) | awk 'NF && !seen[$2]++' >"$work/files"
	{ awk '{ print $2 }' "$work/files" | xargs wc -c 2>/dev/null || true; } | awk '
		NR == FNR { package[$2] = $1; next }
		$2 in package { size[package[$2]] += $1 }
		END { for (name in size) print name, size[name] + 170000 }' "$work/files" - >"$work/plan"
}

# report prints every 10 seconds how many packages are compiled, and what is left by that measure, until it is killed.
report() {
	local begin=$SECONDS
	while sleep 10 >/dev/null 2>&1; do
		awk -v elapsed="$((SECONDS - begin))" '
			NR == FNR { size[$1] = $2; total += $2; packages++; next }
			$1 in size { done += size[$1]; compiled++; delete size[$1] }
			END {
				if (packages == 0) exit
				printf "build: %d of %d packages compiled in %d s", compiled, packages, elapsed
				left = done > 0 ? elapsed * (total - done) / done : 0
				if (compiled == packages) printf "; linking"
				else if (left >= 90) printf "; about %d minutes left", left / 60 + 0.5
				else if (done > 0) printf "; about %d s left", left + 5
				print ""
			}' "$work/plan" "$work/log" >&2
	done
}

# compile builds into a folder, and prints what the compiler said when it fails.
compile() {
	local what="$1" output="$2" packages status=0
	: >"$work/log"
	run plan "$what"
	packages="$(wc -l <"$work/plan")"
	if ((packages > 500)); then
		echo "build: $packages packages are to be compiled, with Kubernetes $(kubernetes_version "$what") among them;" \
			"the first time that takes some minutes" >&2
	fi
	report 9>&- &
	reporter="$!"
	# shellcheck disable=SC2046 # several packages, one flag or none
	run "${compiler_memory[@]}" go -C "$(folder "$what")" build $(module_flags "$what") -v -trimpath -tags "$(tags "$what")" \
		-ldflags "$(link_flags "$what")" -o "$output/" $(packages "$what") 2>>"$work/log" || status="$?"
	stop_reporter
	if ((status != 0)); then
		echo "build: $what: the build failed:" >&2
		# The names of compiled packages are no part of the message.
		grep -vE '^[A-Za-z0-9._~/-]+$' "$work/log" >&2 || tail -n 20 "$work/log" >&2
		exit 1
	fi
}

# cached_name prints what the builds of a program in the cache are called, without the key.
cached_name() {
	local name
	name="$(basename "$(packages "$1")")"
	[[ "$1" != kubernetes ]] && echo "$name" || echo "$name-$other"
}

# build_of prints the name of a program of the sandbox in the cache.
build_of() {
	local key
	if ! key="$(key "$1")"; then
		echo "build: $1: cannot find out what it is built from, see above" >&2
		return 2
	fi
	echo "bin/cache/$(cached_name "$1")-$key"
}

# programs builds what does not belong to the sandbox. Go links nothing anew that is up to date, for which it has to be where it builds to.
programs() {
	local package program
	for package in $(packages programs); do
		program="$(basename "$package")"
		ln "bin/$program" "$work/$program" 2>/dev/null || cp -p "bin/$program" "$work/$program" 2>/dev/null || true
	done
	compile programs "$work"
	for package in $(packages programs); do
		program="$(basename "$package")"
		[[ "$work/$program" -ef "bin/$program" ]] || mv -f "$work/$program" "bin/$program"
	done
}

# operator builds the operator of the integration tests, or the one with the race detector, which needs cgo.
operator() {
	local what="$1" program="bin/drover-$1"
	[[ "$what" != operator-race ]] || export CGO_ENABLED=1
	mkdir "$work/$what"
	ln "$program" "$work/$what/operator" 2>/dev/null || true
	compile "$what" "$work/$what"
	[[ "$work/$what/operator" -ef "$program" ]] || mv -f "$work/$what/operator" "$program"
	export CGO_ENABLED=0
}

# core builds for a demo, which alone knows when it is not needed any more.
core() {
	compile core "$work"
	mv "$work/drover-sandbox" "${CORE_FOLDER:?is where drover-sandbox-core is to be}/drover-sandbox-core"
}

# cached builds a program of the sandbox unless bin/cache has it.
cached() {
	local what="$1" program build name
	program="$(basename "$(packages "$what")")"
	build="$(build_of "$what")"
	if [[ ! -x "$build" ]]; then
		compile "$what" "$work"
		mkdir -p bin/cache
		mv "$work/$program" "$build"
	fi
	for name in $(names "$what"); do
		provide "$build" "$name"
	done
	# shellcheck disable=SC2012 # the names are our own and have no blanks
	ls -1t "bin/cache/$(cached_name "$what")-"[0-9a-f]* | tail -n "+$((kept + 1))" | xargs -r rm -f
}

# names prints where a program of the sandbox is to be.
names() {
	if [[ "$1" == kubernetes ]]; then
		printf "bin/kubernetes/$other/%s\n" kube-apiserver kube-controller-manager kube-scheduler
	else
		echo "bin/$(basename "$(packages "$1")")"
	fi
}

# provide puts a build at its place. A hard link takes no space; the rename replaces a program that runs.
provide() {
	local build="$1" name="$2"
	[[ ! "$name" -ef "$build" ]] || return 0
	mkdir -p "$(dirname "$name")"
	ln "$build" "$work/provided" 2>/dev/null || cp "$build" "$work/provided"
	mv -f "$work/provided" "$name"
	[[ "$name" -ef "$build" ]] || touch "$build"
}

[[ " $* " != *" kubernetes "* ]] || choose_version
if [[ "${1:-}" == --check ]]; then
	build="$(build_of "$2")"
	[[ -x "$build" ]]
	exit
fi
for what in "$@"; do
	packages "$what" >/dev/null
	if [[ "$what" != programs && "$what" != operator* && "$(uname -s)" != Linux ]]; then
		echo "build: $what: the control plane for demos and tests runs on Linux alone; hack/build.sh programs builds drover and kubectl-drover" >&2
		exit 1
	fi
done
for what in "$@"; do
	lock "$what"
	case "$what" in
	programs | core) "$what" ;;
	operator | operator-race) operator "$what" ;;
	*) cached "$what" ;;
	esac
	unlock
done
