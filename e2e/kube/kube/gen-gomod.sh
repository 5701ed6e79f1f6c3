#!/bin/sh
# Writes go.mod and go.sum for another Kubernetes: gen-gomod.sh 1.37.1
# k8s.io/kubernetes requires its staging modules at v0.0.0 and replaces them by folders of its own
# checkout. A replace in a dependency does not count, so each is repeated here with a published version.
set -eu
version=${1:?usage: gen-gomod.sh 1.X.Y}
staging=v0.${version#1.}
cd "$(dirname "$0")"
mod=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
{
  printf 'module fairlead.test/kube\n\ngo 1.26.0\n\ngodebug default=go1.26\n\n'
  printf 'require k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
  sed -n 's/^\t\(k8s.io\/[a-z-]*\) => .*/\1/p' "$mod" | sort -u | while read -r m; do
    printf '\t%s => %s %s\n' "$m" "$m" "$staging"
  done
  printf ')\n\ntool (\n'
  printf '\tk8s.io/kubernetes/cmd/%s\n' kube-apiserver kube-controller-manager kube-scheduler kubectl
  printf ')\n'
} > go.mod
go mod tidy
