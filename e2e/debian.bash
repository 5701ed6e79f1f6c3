# For scripts that use programs of this Debian's packages without installing them, to be sourced: `unpack NAME [HINT]`,
# `needs_libraries OF ROOT PROGRAM...`. No package's script runs. The sourcing script defines `say` and `check ROOT`, which ends it
# if the programs do not run here; $here/packages lists the packages.

# Sets `unpacked` to the folder of the packages, in the cache under NAME with a folder for each list of packages.
unpack() {
  local cache=${FAIRLEAD_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither FAIRLEAD_CACHE nor HOME is set}/.cache}/fairlead}/$1 hint=${2:-}
  local packages package file
  mapfile -t packages < <(sed 's/#.*//; /^[[:space:]]*$/d' "$here/packages")
  unpacked=$cache/$(printf '%s\n' "${packages[@]}" | sha256sum | cut -c1-16)
  [ ! -e "$unpacked/complete" ] || return 0
  command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || {
    say "there is no apt-get here$hint"
    exit 1
  }
  mkdir -p "$cache"
  # Two tests may come here at once.
  exec 9> "$cache/lock"
  flock 9
  [ ! -e "$unpacked/complete" ] || return 0
  work=$(mktemp -d "$cache/work.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  for package in "${packages[@]}"; do
    (cd "$work" && apt-get download -qq "$package" 2> /dev/null) || {
      say "$package is not to be had; taking the version there is"
      (cd "$work" && apt-get download -qq "${package%%=*}" >&2) || {
        say "${package%%=*} is not to be had either (apt-get update?)"
        exit 1
      }
    }
  done
  mkdir "$work/unpacked"
  for file in "$work"/*.deb; do
    dpkg-deb --extract "$file" "$work/unpacked"
  done
  check "$work/unpacked"
  touch "$work/unpacked/complete"
  rm -rf "$unpacked"
  mv -T "$work/unpacked" "$unpacked"
}

# Ends the script if libraries of these programs are neither in the packages nor on this machine.
needs_libraries() {
  local of=$1 root=$2 missing
  missing=$(LD_LIBRARY_PATH=$(echo "$root"/usr/lib/*-linux-gnu) ldd "${@:3}" | grep 'not found' || true)
  [ -n "$missing" ] || return 0
  say "libraries of $of are not on this machine:"
  echo "$missing" >&2
  exit 1
}
