// Command plugin packs the kubectl plugin: an archive for each platform, the sums of all archives, and a manifest for krew. hack/plugin.sh calls it
// with the programs that it has built.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// options say what is packed, from where and to where.
type options struct {
	stage, out, version, url string
	license, template        string
	epoch                    int64
	platforms                []string
}

func main() {
	o := options{}
	flag.StringVar(&o.stage, "stage", "", "folder with the programs: OS_ARCH/kubectl-drover, and the completion script kubectl_complete-drover")
	flag.StringVar(&o.out, "out", "dist", "folder for the archives")
	flag.StringVar(&o.version, "version", "", "version in the names of the archives")
	flag.StringVar(&o.url, "url", "", "address of the folder from which the archives can be fetched")
	flag.StringVar(&o.license, "license", "LICENSE", "the licence's text")
	flag.StringVar(&o.template, "template", filepath.Join("plugin", "krew", "drover.yaml"), "template of the krew manifest")
	flag.Int64Var(&o.epoch, "epoch", 0, "time of all files, in seconds since 1970")
	flag.Parse()
	o.platforms = flag.Args()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

// run packs everything, and then looks whether it is right.
func (o options) run() error {
	if o.version == "" || o.url == "" || len(o.platforms) == 0 {
		return fmt.Errorf("give -version, -url and platforms (OS/ARCH)")
	}
	//nolint:gosec // what is released is for everybody to read
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	var archives []archive
	for _, platform := range o.platforms {
		a, err := o.pack(platform)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		archives = append(archives, a)
	}
	if err := o.sums(archives); err != nil {
		return err
	}
	if err := o.manifest(archives); err != nil {
		return err
	}
	return o.check(archives)
}

// pack makes the archive of one platform.
func (o options) pack(platform string) (archive, error) {
	system, processor, found := strings.Cut(platform, "/")
	if !found {
		return archive{}, fmt.Errorf("a platform is OS/ARCH")
	}
	a := archive{OS: system, Arch: processor, Binary: "kubectl-drover"}
	a.Name = fmt.Sprintf("kubectl-drover_%s_%s_%s", o.version, system, processor)
	script := &member{name: "kubectl_complete-drover", path: filepath.Join(o.stage, "kubectl_complete-drover"), mode: 0o755}
	if system == "windows" {
		// kubectl on Windows does not run scripts of a shell.
		a.Binary, script = "kubectl-drover.exe", nil
		a.Name += ".zip"
	} else {
		a.Name += ".tar.gz"
	}
	members := []member{
		{name: a.Binary, path: filepath.Join(o.stage, system+"_"+processor, a.Binary), mode: 0o755},
		{name: "LICENSE", path: o.license, mode: 0o644},
	}
	if script != nil {
		members = append(members, *script)
	}
	var err error
	a.SHA256, err = a.write(filepath.Join(o.out, a.Name), time.Unix(o.epoch, 0).UTC(), members)
	return a, err
}

// released is how krew wants versions to be.
var released = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// krewVersion is the version for krew's manifest; what is no release gets one that comes before all releases.
func krewVersion(version string) string {
	if released.MatchString(version) {
		return version
	}
	return "v0.0.0-" + regexp.MustCompile(`[^0-9A-Za-z.-]`).ReplaceAllString(version, "-")
}
