package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/drover-io/drover/test/harness"
)

// auditFollower counts the operator's writes of Nodes in the audit log as it grows. It looks at the bytes of each line once, since what
// it uses of the processor is taken from what is measured.
type auditFollower struct {
	file    *os.File
	reader  *bufio.Reader
	partial []byte
	nodes   int
}

func follow(path string, from int64) (*auditFollower, error) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("following the audit log: %w", err)
	}
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("following the audit log: %w", err), file.Close())
	}
	return &auditFollower{file: file, reader: bufio.NewReaderSize(file, 1<<20)}, nil
}

func (f *auditFollower) close() { _ = f.file.Close() }

// nodesWritten reads on to the present end and returns how many Nodes have been written so far.
func (f *auditFollower) nodesWritten() (int, error) {
	user, verb, resource := []byte(`"`+harness.User+`"`), []byte(`"verb":"patch"`), []byte(`"resource":"nodes"`)
	for {
		text, err := f.reader.ReadBytes('\n')
		f.partial = append(f.partial, text...)
		if errors.Is(err, io.EOF) {
			return f.nodes, nil
		}
		if err != nil {
			return f.nodes, fmt.Errorf("following the audit log: %w", err)
		}
		if bytes.Contains(f.partial, user) && bytes.Contains(f.partial, verb) && bytes.Contains(f.partial, resource) {
			f.nodes++
		}
		f.partial = f.partial[:0]
	}
}
