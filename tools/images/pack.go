package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func runPack(_ context.Context, flags *flag.FlagSet, args []string) error {
	files, links := pairs{}, pairs{}
	var out, ref, entrypoint, user string
	flags.StringVar(&out, "out", "", "`file` for the archive")
	flags.StringVar(&ref, "ref", "", "`name` of the image, with its tag")
	flags.StringVar(&entrypoint, "entrypoint", "", "command of its containers, words joined by commas")
	flags.StringVar(&user, "user", nonRoot, "user and group of its containers")
	flags.Var(files, "file", "a program in the image and where it is now, as `/path=file`")
	flags.Var(links, "link", "a symbolic link in the image and what it points to, as `/path=/target`")
	if err := parse(flags, args, "out", "ref", "entrypoint"); err != nil {
		return err
	}
	layer, err := layerOf(files, links)
	if err != nil {
		return err
	}
	image, err := bare(&v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
	if err != nil {
		return err
	}
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return fmt.Errorf("adding the files: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("reading the image: %w", err)
	}
	wanted := config.Config
	wanted.Entrypoint, wanted.User = strings.Split(entrypoint, ","), user
	if image, err = mutate.Config(image, wanted); err != nil {
		return fmt.Errorf("setting the command: %w", err)
	}
	return write(out, ref, image)
}

// layerOf packs files and links. Their times are left out, so that the same files give the same layer.
func layerOf(files, links map[string]string) (v1.Layer, error) {
	buffer := &bytes.Buffer{}
	archive := tar.NewWriter(buffer)
	made := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		data, err := os.ReadFile(filepath.Clean(files[path]))
		if err != nil {
			return nil, fmt.Errorf("--file %s: %w", path, err)
		}
		if err := folders(archive, path, made); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(data))}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("--file %s: %w", path, err)
		}
		if _, err := archive.Write(data); err != nil {
			return nil, fmt.Errorf("--file %s: %w", path, err)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(links)) {
		if err := folders(archive, path, made); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(path, "/"), Linkname: links[path], Mode: 0o777}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("--link %s: %w", path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil })
}

// folders makes the folders above a path, once, and one for temporary files.
func folders(archive *tar.Writer, path string, made map[string]bool) error {
	if !made["tmp"] {
		made["tmp"] = true
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
			return err
		}
	}
	above := ""
	for _, part := range strings.Split(filepath.Dir(strings.TrimPrefix(path, "/")), "/") {
		if above = filepath.Join(above, part); above == "." || made[above] {
			continue
		}
		made[above] = true
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: above + "/", Mode: 0o755}); err != nil {
			return err
		}
	}
	return nil
}

func runArchive(_ context.Context, flags *flag.FlagSet, args []string) error {
	var from, out, ref string
	flags.StringVar(&from, "layout", "", "`folder` of the OCI layout")
	flags.StringVar(&out, "out", "", "`file` for the archive")
	flags.StringVar(&ref, "ref", "", "`name` of the image, with its tag")
	if err := parse(flags, args, "layout", "out", "ref"); err != nil {
		return err
	}
	index, err := read(from)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("reading the layout %s: %w", from, err)
	}
	for _, entry := range manifest.Manifests {
		if entry.Platform == nil || entry.Platform.OS != "linux" || entry.Platform.Architecture != runtime.GOARCH {
			continue
		}
		image, err := index.Image(entry.Digest)
		if err != nil {
			return fmt.Errorf("reading image %s: %w", entry.Digest, err)
		}
		return write(out, ref, image)
	}
	return fmt.Errorf("the layout %s has no image for linux/%s", from, runtime.GOARCH)
}

// read opens the one index that a layout holds.
func read(folder string) (v1.ImageIndex, error) {
	path, err := layout.FromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("there is no OCI layout in %s: %w", folder, err)
	}
	root, err := path.ImageIndex()
	if err != nil {
		return nil, fmt.Errorf("reading the layout %s: %w", folder, err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the layout %s: %w", folder, err)
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the layout %s holds %d things, not one", folder, len(manifest.Manifests))
	}
	return root.ImageIndex(manifest.Manifests[0].Digest)
}

// write writes an archive that container engines import.
func write(out, ref string, image v1.Image) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("--ref %s: %w", ref, err)
	}
	// The archive is there whole or not at all: who finds it takes it as it is.
	part := out + ".part"
	if err := tarball.WriteToFile(part, tag, image); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", part, err), os.RemoveAll(part))
	}
	if err := os.Rename(part, out); err != nil {
		return fmt.Errorf("writing %s: %w", out, err)
	}
	return nil
}
