#!/usr/bin/env bash
# Installs the Debian packages that nodes with real kubelets need (drover-sandbox node add, make test-node): containerd, runc, the CNI plugins,
# busybox as a static program, and tools of the network. What is there already is left alone. Nothing is started.
set -euo pipefail

packages=(containerd runc busybox-static containernetworking-plugins iproute2 iptables util-linux)
missing=()
for package in "${packages[@]}"; do
	dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
	echo "install-node-packages: all there: ${packages[*]}"
	exit 0
fi
if ((EUID != 0)); then
	echo "install-node-packages: run it as root; it installs ${missing[*]}" >&2
	exit 1
fi
echo "install-node-packages: installing ${missing[*]}" >&2
# A service that is installed here must not be started: each node runs a containerd of its own.
policy=/usr/sbin/policy-rc.d
if [[ ! -e "$policy" ]]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
	trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
