package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Environment variables with the credentials for the registry. Without them runPush uses the credentials that container engines have stored.
const (
	userEnv  = "REGISTRY_USER"
	tokenEnv = "REGISTRY_TOKEN"
)

func runPush(ctx context.Context, flags *flag.FlagSet, args []string) error {
	var from, to, tag string
	flags.StringVar(&from, "layout", "", "`folder` of the OCI layout")
	flags.StringVar(&to, "to", "", "registry and `name` of the image")
	flags.StringVar(&tag, "tag", "", "tag of the image")
	if err := parse(flags, args, "layout", "to", "tag"); err != nil {
		return err
	}
	index, err := read(from)
	if err != nil {
		return err
	}
	ref, err := name.NewTag(to + ":" + tag)
	if err != nil {
		return fmt.Errorf("--to %s --tag %s: %w", to, tag, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	user, token := os.Getenv(userEnv), os.Getenv(tokenEnv)
	switch {
	case (user == "") != (token == ""):
		return fmt.Errorf("%s and %s go together: one of them is not set", userEnv, tokenEnv)
	case user != "":
		options[1] = remote.WithAuth(&authn.Basic{Username: user, Password: token})
	}
	if err := remote.WriteIndex(ref, index, options...); err != nil {
		return fmt.Errorf("pushing %s: %w", ref, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", ref, digest)
	return nil
}

func runDigest(_ context.Context, flags *flag.FlagSet, args []string) error {
	var from string
	flags.StringVar(&from, "layout", "", "`folder` of the OCI layout")
	if err := parse(flags, args, "layout"); err != nil {
		return err
	}
	index, err := read(from)
	if err != nil {
		return err
	}
	return printDigest(index)
}

// printDigest prints the digest of an index and the digests of its images.
func printDigest(index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("reading the digest: %w", err)
	}
	fmt.Println(digest)
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("reading the index: %w", err)
	}
	for _, entry := range manifest.Manifests {
		fmt.Printf("  %s %s\n", entry.Platform, entry.Digest)
	}
	return nil
}
