#!/bin/sh
# soak.sh MINUTES [OPTION...]: the model test for MINUTES in all, over both backends,
# with the races at full length before. `make soak MINUTES=n` comes here.
#
# MODEL_SEED=n begins with that seed; further options go to the test itself
# (`t/model/soak.sh 1 --help` lists them).
set -eu
cd "$(dirname "$0")/../.."
minutes=${1:-10}
test $# -eq 0 || shift
# The flags are words, so they are not quoted.
# shellcheck disable=SC2086
exec cargo test ${CARGO_FLAGS-} --test model -- --minutes "$minutes" --races 10000 "$@"
