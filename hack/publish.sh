#!/usr/bin/env bash
# Publishes what hack/release.sh has made: pushes the image, signs it and the images of its platforms, attaches to that of each platform its list of
# contents (SPDX), and signs each file of dist/release, as FILE.sigstore.json beside it. Signatures are keyless: cosign asks for a token that says
# which workflow runs at which tag, and who verifies names that workflow (SECURITY.md). Then it verifies all of it that way.
#   VERSION, IMAGE_REPOSITORY       as for hack/release.sh
#   REGISTRY_USER, REGISTRY_TOKEN   who pushes
#   IDENTITY                        the workflow: https://github.com/OWNER/REPOSITORY/.github/workflows/release.yml@refs/tags/VERSION
# With GITHUB_OUTPUT it writes digest= there, for the attestation of provenance.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${VERSION:?}" "${IMAGE_REPOSITORY:?}" "${REGISTRY_USER:?}" "${REGISTRY_TOKEN:?}" "${IDENTITY:?}"
issuer=https://token.actions.githubusercontent.com
images="$(hack/tool.sh images)"
cosign="$(hack/tool.sh cosign)"

(cd dist/release && sha256sum --check --quiet --strict SHA256SUMS)
platforms="$("$images" digest --layout dist/images/drover)"
digest="$(head -n 1 <<<"$platforms")"
image="$IMAGE_REPOSITORY@$digest"
hack/pinned.sh dist "$image"

printf '%s' "$REGISTRY_TOKEN" | "$cosign" login "${IMAGE_REPOSITORY%%/*}" --username "$REGISTRY_USER" --password-stdin
BUILT=y IMG="$IMAGE_REPOSITORY" hack/push.sh

"$cosign" sign --yes --recursive "$image"
identity=(--certificate-identity "$IDENTITY" --certificate-oidc-issuer "$issuer")
while read -r platform of; do
	list="dist/images/sbom/drover-${platform//\//-}.spdx.json"
	"$cosign" attest --yes --type spdxjson --predicate "$list" "$IMAGE_REPOSITORY@$of"
	"$cosign" verify-attestation --type spdxjson "${identity[@]}" "$IMAGE_REPOSITORY@$of" >/dev/null
done < <(tail -n +2 <<<"$platforms")
"$cosign" verify "${identity[@]}" "$image" >/dev/null

files=()
for file in dist/release/*; do [[ "$file" == *.sigstore.json ]] || files+=("$file"); done
for file in "${files[@]}"; do
	"$cosign" sign-blob --yes --bundle "$file.sigstore.json" "$file" >/dev/null
	"$cosign" verify-blob --bundle "$file.sigstore.json" "${identity[@]}" "$file" >/dev/null
done
[[ -z "${GITHUB_OUTPUT:-}" ]] || echo "digest=$digest" >>"$GITHUB_OUTPUT"
echo "publish: $image and ${#files[@]} files are pushed and signed by $IDENTITY" >&2
