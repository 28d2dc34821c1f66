package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/drover-io/drover/app"
	"github.com/drover-io/drover/internal/cli"
	"github.com/drover-io/drover/internal/version"
)

// writeManuals writes a manual page for each command of the operator and the plugin. Its date is SOURCE_DATE_EPOCH, so that two runs write
// the same.
func writeManuals(folder string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH, the date on the pages: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // for everybody to read
		return err
	}
	for _, root := range []*cobra.Command{app.NewCommand(), cli.Command()} {
		root.DisableAutoGenTag = true
		if flag := root.PersistentFlags().Lookup("cache-dir"); flag != nil {
			flag.DefValue = "$HOME/.kube/cache"
		}
		header := &doc.GenManHeader{Section: "1", Manual: "Drover", Source: "Drover " + version.Version(), Date: &date}
		if err := doc.GenManTree(root, header, folder); err != nil {
			return err
		}
	}
	return nil
}
