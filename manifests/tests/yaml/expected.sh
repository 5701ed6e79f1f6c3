#!/bin/sh
# Writes the expected objects of each file beside it, as kubectl reads them: expected.sh [KUBECTL]
# A local patch without changes needs no API server and prints the objects that an apply would send.
set -eu
kubectl=${1:-kubectl}
cd "$(dirname "$0")"
for file in *.yaml *.json; do
    case $file in *.expected.json) continue ;; esac
    "$kubectl" patch --local --type=merge -p '{}' -o json -f "$file" >"$file.expected.json"
done
for file in refused/*; do
    if "$kubectl" patch --local --type=merge -p '{}' -o json -f "$file" >/dev/null 2>&1; then
        echo "kubectl accepts $file" >&2
        exit 1
    fi
done
