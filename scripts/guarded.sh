# What a script sources first, in the repository's root, so that all it starts ends with it, and with make (GATED_MAKE_PID) where that
# runs it, whatever signal the one or the other gets. Nobody can catch SIGKILL: bin/suite runs the script again, with a guard.
if [ -z "${GATED_SCRIPT_IS_GUARDED-}" ]; then
	./scripts/room.sh
	# One configuration of builds, as the Makefile has.
	export CGO_ENABLED="${CGO_ENABLED-0}" GOFLAGS="-trimpath -vet=off ${GOFLAGS-}"
	go build -o bin/suite ./internal/test/suite
	GATED_SCRIPT_IS_GUARDED=1 exec bin/suite -script -with "${GATED_MAKE_PID:-0}" -- "scripts/${0##*/}" "$@"
fi
unset GATED_SCRIPT_IS_GUARDED GATED_MAKE_PID
trap 'exit 130' INT TERM
