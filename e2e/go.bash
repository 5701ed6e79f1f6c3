# For scripts that make a folder from pinned Go modules, to be sourced: `make_once NAME FILE...`. The sourcing script defines
# `say` and `fill FOLDER`, which runs in $here; its output goes to standard error.

# Sets `folder` to the folder in the cache under NAME for this content of the script and of the files. Fills a missing one.
make_once() {
  local cache=${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither FAIRLEAD_CACHE nor HOME is set}/.cache}/fairlead}/$1 begin=$SECONDS
  local shared=${BASH_SOURCE[0]}
  folder=$cache/$(cd "$here" && { uname -sm; cat "$shared" build "${@:2}"; } | sha256sum | cut -c1-16)
  [ ! -d "$folder" ] || return 0
  command -v go > /dev/null || { say "the go tool is missing (1.26 or later): https://go.dev/doc/install"; exit 1; }
  mkdir -p "$cache"
  # Two tests may come here at once.
  exec 9> "$cache/lock"
  flock 9
  [ ! -d "$folder" ] || return 0
  say "making $1"
  rm -rf "$cache/.new"
  mkdir "$cache/.new"
  export CGO_ENABLED=0 GOWORK=off GOFLAGS="-trimpath -buildvcs=false -mod=readonly"
  (cd "$here"; fill "$cache/.new") >&2 9>&-
  mv -T "$cache/.new" "$folder"
  say "  done, $((SECONDS - begin)) s"
}
