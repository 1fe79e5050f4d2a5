package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"gated/client"
	"gated/client/api"
)

// A step that could lose data waits for an operator. The gate waits for the caller: nothing polls.
func ExampleClient_Submit() {
	gate := newGate()
	defer gate.end()
	ctx := context.Background()

	c, err := client.New(client.Options{Socket: gate.socket})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	step := api.Ask{Op: "guest.destroy", Target: "guest/spare"}
	// With the same key, a second call returns this job and asks for no other one.
	job, err := c.Submit(ctx, api.SubmitOf("nobody needs it any more", step), "cleanup-2026-11")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.State, "because", job.Steps[0].Why)

	gate.approve(*job.Request) // an operator: opsign approve j12.1

	job, err = c.WaitJob(ctx, job.ID, api.UntilDecided)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.State)
	// Output:
	// pending_signature because the guest and its data would be gone, and this gate has no record of making it
	// authorized
}

// A holder's paths are its own until it releases them, or until their time is up.
func ExampleClient_Reserve() {
	gate := newGate()
	defer gate.end()
	ctx := context.Background()

	c, err := client.New(client.Options{Socket: gate.socket})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	scope, err := place(gate.checkout)
	if err != nil {
		fmt.Println(err)
		return
	}
	held, err := c.Reserve(ctx, api.Reserve{Scope: scope, Patterns: []string{"src/**"}, Reason: "a new parser",
		TTLSeconds: 900, WaitSeconds: 60})
	var taken *client.Conflicted
	switch {
	case errors.As(err, &taken):
		fmt.Println(taken.Conflicts[0].Reservation.Agent, "has", taken.Conflicts[0].Overlaps)
		return
	case err != nil:
		fmt.Println(err)
		return
	}
	fmt.Println(held.Patterns, held.ExpiresAt.Sub(held.CreatedAt))

	held, err = c.Release(ctx, held.ID)
	fmt.Println(held.Mine, err)
	// Output:
	// [src/**] 15m0s
	// true <nil>
}

// place describes a directory without symbolic links in its path.
func place(directory string) (api.Place, error) {
	info, err := os.Stat(directory)
	if err != nil {
		return api.Place{}, err
	}
	stat := info.Sys().(*syscall.Stat_t)
	return api.Place{Path: directory, Device: uint64(stat.Dev), Inode: stat.Ino}, nil
}

// A refusal has a code for programs, a sentence for people, and what to do.
func ExampleRefusal() {
	gate := newGate()
	defer gate.end()

	c, err := client.New(client.Options{Socket: gate.socket})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	_, err = c.Job(context.Background(), "j99")
	if errors.Is(err, api.CodeUnknownTarget) {
		fmt.Println("there is no such job")
	}
	var refused *client.Refusal
	if errors.As(err, &refused) {
		fmt.Println(refused.Code)
		fmt.Println("exit code:", api.Exit(err))
	}
	// Output:
	// there is no such job
	// unknown_target
	// exit code: 1
}

// No gate answers: the error says where the client looked, and that nothing was asked.
func ExampleUnreachable() {
	c, err := client.New(client.Options{Socket: "/nowhere/gated.sock"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	_, err = c.Status(context.Background())
	var gone *client.Unreachable
	if errors.As(err, &gone) {
		fmt.Println(gone.Tried[0].Path, gone.Asked, api.Exit(err))
	}
	// Output: /nowhere/gated.sock false 4
}
