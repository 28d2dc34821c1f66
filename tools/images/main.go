// Command images writes and pushes container images, without a container engine and without a base image from elsewhere:
//
//	images build --module DIR --package ./cmd/drover --layout DIR --version V --commit C --created SECONDS   an OCI layout for several platforms
//	images pack --out FILE --ref NAME --file /path=FILE --link /path=/path --entrypoint /path                an archive of files that are there
//	images archive --layout DIR --out FILE --ref NAME                                                        an image of a layout, to be imported
//	images push --layout DIR --to REGISTRY/NAME --tag TAG                                                    to a registry
//	images digest --layout DIR                                                                               what a layout holds
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// command is one of the commands: it reads its flags and does its work.
type command func(ctx context.Context, flags *flag.FlagSet, args []string) error

var commands = map[string]command{"build": runBuild, "pack": runPack, "archive": runArchive, "push": runPush, "digest": runDigest}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return fmt.Errorf("the first argument says what to do: build, pack, archive, push or digest")
	}
	return commands[args[0]](ctx, flag.NewFlagSet(args[0], flag.ContinueOnError), args[1:])
}

// parse reads flags. The flags in required must be given.
func parse(flags *flag.FlagSet, args []string, required ...string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes no arguments, only flags: %v", flags.Name(), flags.Args())
	}
	var missing []string
	for _, name := range required {
		if flags.Lookup(name).Value.String() == "" {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s needs %s", flags.Name(), strings.Join(missing, " and "))
	}
	return nil
}

// pairs is a flag that may be given several times, as KEY=VALUE.
type pairs map[string]string

// String implements flag.Value.
func (p pairs) String() string { return fmt.Sprint(map[string]string(p)) }

// Set implements flag.Value.
func (p pairs) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" || value == "" {
		return fmt.Errorf("%q is not KEY=VALUE", text)
	}
	p[key] = value
	return nil
}
