package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/maintenance"
	"github.com/drover-io/drover/internal/cli/plan"
	"github.com/drover-io/drover/internal/cli/rollout"
	"github.com/drover-io/drover/internal/cli/ui/model"
)

// maxCommands is how many commands run at once, commandTimeout how long each may take.
const (
	maxCommands    = 2
	commandTimeout = time.Minute
	maxErrorText   = 8 << 10
	// maxLines is how many lines of a command are shown.
	maxLines = 1000
)

// commands are the commands of the command line that the page runs, by their names.
var commands = map[string]func(*cmdutil.Options) *cobra.Command{
	"plan": plan.NewCommand, "pause": rollout.NewPauseCommand, "resume": rollout.NewResumeCommand, "maintenance": maintenance.NewCommand,
}

// commandLine is a command with its arguments, and what it reads.
type commandLine struct {
	args      []string
	namespace string
	in        []byte
}

// commandResult is what a command has printed, and its error.
type commandResult struct {
	out, errOut []byte
	err         error
}

// runCommand runs a command as the command line does, with the client of the page. If too many run already, it answers the request and reports false.
func (s *server) runCommand(w http.ResponseWriter, r *http.Request, line *commandLine) (*commandResult, bool) {
	select {
	case s.commands <- struct{}{}:
		defer func() { <-s.commands }()
	default:
		http.Error(w, fmt.Sprintf("%d commands run already; try again", maxCommands), http.StatusTooManyRequests)
		return nil, false
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandTimeout)
	defer cancel()
	var out, errOut bytes.Buffer
	o := cmdutil.NewOptions(genericiooptions.IOStreams{In: bytes.NewReader(line.in), Out: &out, ErrOut: &errOut})
	o.Connect = func() (client.WithWatch, error) { return s.cluster.client, nil }
	o.Now, o.Config.Namespace = s.cluster.now, &line.namespace
	command := commands[line.args[0]](o)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	command.SetArgs(line.args[1:])
	err := command.ExecuteContext(ctx)
	return &commandResult{out: out.Bytes(), errOut: errOut.Bytes(), err: err}, true
}

// readBody reads the body of a request of a media type. If it is another one or too long, it answers the request and reports false.
func readBody(w http.ResponseWriter, r *http.Request, mediaType string, most int64) ([]byte, bool) {
	if given, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || given != mediaType {
		http.Error(w, "the Content-Type must be "+mediaType, http.StatusUnsupportedMediaType)
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		http.Error(w, fmt.Sprintf("at most %d bytes are read", most), http.StatusRequestEntityTooLarge)
		return nil, false
	}
	if err != nil {
		http.Error(w, "the request has broken off", http.StatusBadRequest)
		return nil, false
	}
	return body, true
}

// linesOf returns the first lines of a text, each cut to a length.
func linesOf(text []byte) []string {
	lines, omitted := []string{}, 0
	for line := range strings.Lines(string(text)) {
		if len(lines) == maxLines {
			omitted++
			continue
		}
		lines = append(lines, model.Text(strings.TrimRight(line, "\n"), maxText))
	}
	if omitted > 0 {
		lines = append(lines, fmt.Sprintf("%d more lines are left out", omitted))
	}
	return lines
}

// messagesOf returns the texts of the errors of a command, one for each object.
func messagesOf(err error) []string {
	if err == nil {
		return []string{}
	}
	var joined interface {
		error
		Unwrap() []error
	}
	if !errors.As(err, &joined) || joined.Error() != err.Error() {
		return []string{model.Text(err.Error(), maxErrorText)}
	}
	var messages []string
	for _, each := range joined.Unwrap() {
		messages = append(messages, model.Text(each.Error(), maxErrorText))
	}
	return messages
}

// flags are the flags of kubectl drover ui that other commands have as well.
type flags struct {
	// cluster are the flags that choose the cluster and the user, with placeholders for secrets, protect the flags of protected keys.
	cluster, protect []string
	namespace        string
}

// clusterFlags are the names of the flags that choose the cluster and the user, secretFlags those among them whose values are secrets.
var (
	clusterFlags = []string{
		"kubeconfig", "context", "cluster", "user", "server", "as", "as-group", "as-uid", "as-user-extra", "certificate-authority", "client-certificate",
		"client-key", "insecure-skip-tls-verify", "tls-server-name",
	}
	secretFlags = []string{"token", "password"}
)

// flagsOf returns the flags that a user gave. The context is among them in any case: the kubeconfig may name another one by the time that a user runs
// a command which the page has shown.
func flagsOf(command *cobra.Command, o *cmdutil.Options) flags {
	out := flags{namespace: o.GivenNamespace()}
	command.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains(secretFlags, flag.Name) {
			out.cluster = append(out.cluster, "--"+flag.Name+"="+strings.ToUpper(flag.Name))
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			text := "--" + flag.Name + "=" + value
			switch {
			case slices.Contains(clusterFlags, flag.Name):
				out.cluster = append(out.cluster, text)
			case strings.HasPrefix(flag.Name, "protect-"), strings.HasPrefix(flag.Name, "unprotect-"):
				out.protect = append(out.protect, text)
			}
		}
	})
	// The client has been made from the same kubeconfig, so that it can be read.
	if raw, err := o.Config.ToRawKubeConfigLoader().RawConfig(); err == nil && raw.CurrentContext != "" && !command.Flags().Changed("context") {
		out.cluster = append(out.cluster, "--context="+raw.CurrentContext)
	}
	return out
}

// plainWord is an argument that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// commandText returns a command as a user types it in a shell.
func (f *flags) commandText(args []string, namespace string) string {
	words := slices.Concat([]string{"kubectl", "drover"}, args, f.cluster)
	if namespace != "" {
		words = append(words, "--namespace="+namespace)
	}
	for i, word := range words {
		if !plainWord.MatchString(word) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
