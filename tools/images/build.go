package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/ko/pkg/build"
)

// nonRoot is the user and group of the containers, the same as in distroless images.
const nonRoot = "65532:65532"

// versionPackage is where a program of Drover keeps its version.
const versionPackage = "github.com/drover-io/drover/internal/version"

// buildOptions are the flags of build.
type buildOptions struct {
	module, path, layout, sboms, version, commit, platforms, created string
}

func runBuild(ctx context.Context, flags *flag.FlagSet, args []string) error {
	o := buildOptions{}
	flags.StringVar(&o.module, "module", ".", "`folder` of the Go module")
	flags.StringVar(&o.path, "package", "", "`package` of the program, as ./cmd/drover")
	flags.StringVar(&o.layout, "layout", "", "`folder` for the OCI layout, which must not be there yet")
	flags.StringVar(&o.sboms, "sbom-dir", "", "`folder` for the lists of what went into the programs, in SPDX; none without it")
	flags.StringVar(&o.version, "version", "devel", "version that the program says it has")
	flags.StringVar(&o.commit, "commit", "unknown", "commit that the program says it is of")
	flags.StringVar(&o.created, "created", "0", "when the image says it was made, in seconds since 1970")
	flags.StringVar(&o.platforms, "platforms", "linux/amd64,linux/arm64", "platforms, joined by commas")
	if err := parse(flags, args, "package", "layout"); err != nil {
		return err
	}
	index, err := o.index(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.layout); err == nil {
		return fmt.Errorf("--layout %s is there already; remove it first", o.layout)
	}
	if err := os.MkdirAll(filepath.Dir(o.layout), 0o750); err != nil {
		return err
	}
	path, err := layout.Write(o.layout, empty.Index)
	if err != nil {
		return fmt.Errorf("making the layout %s: %w", o.layout, err)
	}
	if err := path.AppendIndex(index); err != nil {
		return fmt.Errorf("writing the layout %s: %w", o.layout, err)
	}
	return printDigest(index)
}

// index builds the program for all platforms. The same sources, version and time give the same bytes.
func (o *buildOptions) index(ctx context.Context) (v1.ImageIndex, error) {
	seconds, err := strconv.ParseInt(o.created, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("--created %s: %w", o.created, err)
	}
	at := v1.Time{Time: time.Unix(seconds, 0).UTC()}
	base, err := scratch(strings.Split(o.platforms, ","))
	if err != nil {
		return nil, err
	}
	flags := []string{"-s", "-w", "-X", versionPackage + ".version=" + o.version, "-X", versionPackage + ".commit=" + o.commit}
	options := []build.Option{
		build.WithBaseImages(func(context.Context, string) (name.Reference, build.Result, error) {
			ref, err := name.ParseReference("scratch")
			return ref, base, err
		}),
		build.WithPlatforms(strings.Split(o.platforms, ",")...), build.WithTrimpath(true), build.WithCreationTime(at), build.WithJobs(1),
		build.WithDefaultEnv([]string{"CGO_ENABLED=0"}), build.WithDefaultLdflags(flags),
		build.WithLabel("org.opencontainers.image.version", o.version), build.WithLabel("org.opencontainers.image.revision", o.commit),
		build.WithLabel("org.opencontainers.image.source", "https://github.com/drover-io/drover"),
		build.WithLabel("org.opencontainers.image.licenses", "Apache-2.0"),
	}
	if o.sboms == "" {
		options = append(options, build.WithDisabledSBOM())
	} else {
		if err := os.MkdirAll(o.sboms, 0o750); err != nil {
			return nil, err
		}
		options = append(options, build.WithSPDX(o.version), build.WithSBOMDir(o.sboms))
	}
	builder, err := build.NewGo(ctx, o.module, options...)
	if err != nil {
		return nil, fmt.Errorf("preparing the build of %s: %w", o.path, err)
	}
	path, err := builder.QualifyImport(o.path)
	if err != nil {
		return nil, fmt.Errorf("finding package %s: %w", o.path, err)
	}
	result, err := builder.Build(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", path, err)
	}
	switch built := result.(type) {
	case v1.ImageIndex:
		return built, nil
	case v1.Image: // for one platform alone
		platform, err := v1.ParsePlatform(o.platforms)
		if err != nil {
			return nil, fmt.Errorf("--platforms %s: %w", o.platforms, err)
		}
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		return mutate.AppendManifests(index, mutate.IndexAddendum{Add: built, Descriptor: v1.Descriptor{Platform: platform}}), nil
	default:
		return nil, fmt.Errorf("building %s gave a %T", path, result)
	}
}

// scratch is an image without any file, for each platform.
func scratch(platforms []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, fmt.Errorf("--platforms %s: %w", text, err)
		}
		image, err := bare(platform)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

// bare is an image without any file.
func bare(platform *v1.Platform) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS, Variant: platform.Variant,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
		Config: v1.Config{User: nonRoot, WorkingDir: "/", Env: []string{"PATH=/bin"}},
	})
	if err != nil {
		return nil, fmt.Errorf("making an image without files for %s: %w", platform, err)
	}
	return image, nil
}
