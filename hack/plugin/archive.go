package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// archive is a packed plugin for one platform.
type archive struct {
	OS, Arch, Name, SHA256 string
	// Binary is the program's name in it.
	Binary string
}

// member is a file that goes into an archive.
type member struct {
	name, path string
	mode       int64
}

// write packs the members in their order and returns the sum. Nothing of the machine or the hour goes in, so two runs write the same bytes.
func (a archive) write(path string, at time.Time, members []member) (string, error) {
	var packed bytes.Buffer
	var err error
	if strings.HasSuffix(path, ".zip") {
		err = writeZip(&packed, at, members)
	} else {
		err = writeTar(&packed, at, members)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(packed.Bytes())
	//nolint:gosec // what is released is for everybody to read
	return hex.EncodeToString(sum[:]), os.WriteFile(path, packed.Bytes(), 0o644)
}

func writeTar(to io.Writer, at time.Time, members []member) error {
	compressed := gzip.NewWriter(to)
	packed := tar.NewWriter(compressed)
	for _, m := range members {
		content, err := os.ReadFile(m.path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: m.name, Mode: m.mode, Size: int64(len(content)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := packed.WriteHeader(header); err != nil {
			return err
		}
		if _, err := packed.Write(content); err != nil {
			return err
		}
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func writeZip(to io.Writer, at time.Time, members []member) error {
	packed := zip.NewWriter(to)
	for _, m := range members {
		content, err := os.ReadFile(m.path)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: at}
		header.SetMode(os.FileMode(m.mode)) //nolint:gosec // modes are small
		part, err := packed.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(content); err != nil {
			return err
		}
	}
	return packed.Close()
}

// read unpacks an archive into memory, by the names of its files.
func read(path string) (map[string][]byte, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the caller has made it
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".zip") {
		return readZip(content)
	}
	return readTar(content)
}

func readTar(content []byte) (map[string][]byte, error) {
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	files, packed := map[string][]byte{}, tar.NewReader(compressed)
	for {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if files[header.Name], err = io.ReadAll(packed); err != nil {
			return nil, err
		}
	}
}

func readZip(content []byte) (map[string][]byte, error) {
	packed, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, file := range packed.File {
		part, err := file.Open()
		if err != nil {
			return nil, err
		}
		if files[file.Name], err = io.ReadAll(part); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		if err := part.Close(); err != nil {
			return nil, err
		}
	}
	return files, nil
}
