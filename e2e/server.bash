# For scripts that run a server of a test in a folder of its own, to be sourced: `serves PID SIGNAL FOLDER LOG`, `once READY`, `until_told`.
#
# A line on standard input stops the server and leaves the folder. Where standard input ends without one, whoever started it is
# gone, in whatever way, and so are then the server and the folder.

serves() {
  server=$1 signal=$2 folder=$3 log=$4 keep=
  # bash would tell that it was killed.
  trap 'exec 2> /dev/null; kill -"$signal" "$server" || true; wait "$server" || true; [ -n "$keep" ] || rm -rf "$folder"' EXIT
}

# Waits until this command finds the server ready; one that ends before that has said why.
once() {
  until "$@"; do
    kill -0 "$server" 2> /dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.05
  done
}

until_told() {
  # Ends with 0 for a line. A server that ends by itself leaves the folder to whoever asks why.
  read -r _ <&0 &
  local reader=$! ended
  wait -n -p ended "$server" "$reader" || [ "$ended" = "$server" ] || exit 0
  keep=yes
}
