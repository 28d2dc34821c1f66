#!/usr/bin/env bash
# Writes the bundle for the Operator Lifecycle Manager, with its catalog template, into dist/bundle, and validates it with the validators of
# operator-framework/api. VERSION is the release, as v1.2.3; without it the bundle has the version 0.0.0-devel. IMAGE, BUNDLE_IMAGE and REPLACES name
# the image of the operator (of a release it is the one that hack/push.sh pushes), that of the bundle without its tag, and the version that this one
# replaces. With IMAGE_REPOSITORY and IMAGE_DIGEST, as hack/release.sh has them, the image is named by its digest.
set -euo pipefail
cd "$(dirname "$0")/.."

version="${VERSION:-}"
if [[ -z "$version" ]]; then
	version="v0.0.0-devel"
elif [[ ! "$version" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	echo "bundle: VERSION=$version is no release: it is like v1.2.3 or v1.2.3-rc.1" >&2
	exit 1
else
	IMAGE="${IMAGE:-${IMAGE_REPOSITORY:-ghcr.io/drover-io/drover}${IMAGE_DIGEST:+@$IMAGE_DIGEST}}"
	# Without a digest it is the tag that names it.
	[[ "${IMAGE##*/}" == *[:@]* ]] || IMAGE+=":$version"
fi
out="${DIST:-dist}/bundle"
arguments=(-out "$out" -version "${version#v}")
[[ -z "${IMAGE:-}" ]] || arguments+=(-image "$IMAGE")
[[ -z "${BUNDLE_IMAGE:-}" ]] || arguments+=(-bundle-image "$BUNDLE_IMAGE")
[[ -z "${REPLACES:-}" ]] || arguments+=(-replaces "${REPLACES#v}")
created="$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null || true)"
[[ -z "$created" ]] || arguments+=(-created "$created")

rm -rf "$out"
CGO_ENABLED=0 go run -trimpath ./hack/bundle "${arguments[@]}"
verify="$(hack/tool.sh operator-verify)"
# It ends with 0 whatever it finds; what it finds it prints.
if ! found="$("$verify" manifests --operatorhub_validate --object_validate "$out/manifests" 2>&1)"; then
	printf 'bundle: operator-verify failed:\n%s\n' "$found" >&2
	exit 1
fi
# That one of its validators has a successor is no finding.
found="$(grep -v 'validator is deprecated' <<<"$found" || true)"
if [[ -n "$found" ]]; then
	printf 'bundle: %s is not as it should be:\n%s\n' "$out" "$found" >&2
	exit 1
fi
echo "wrote $out: drover.${version}, $(find "$out/manifests" -type f | wc -l) manifests, valid by operator-verify without a warning"
echo "      to build its image: docker build -f $out/bundle.Dockerfile $out; its catalog: opm alpha render-template basic $out/catalog/drover.yaml"
