package kubemark

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/provider"
)

// Options of the provider in the configuration, below machines.providerOptions.kubemark.
const (
	// OptionImage names the image that has Kubernetes' kubemark, or drover-sandbox-node under that name. It is required.
	OptionImage = "image"
	// OptionCommand is what the Pod runs before the flags, with blanks between its words. Default /kubemark.
	OptionCommand = "command"
)

// Program is what a hollow node runs. It comes from the configuration: in a Pod that has a kubelet's kubeconfig, the author of a Machine could
// otherwise run anything.
type Program struct {
	// Image is the container's image.
	Image string
	// Command is the container's command, without the flags that the provider adds.
	Command []string
}

// programOf reads the provider's options.
func programOf(options map[string]string) (Program, error) {
	for key := range options {
		if key != OptionImage && key != OptionCommand {
			return Program{}, fmt.Errorf("machines.providerOptions.%s.%s: there is no such option; there are %s and %s", Name, key, OptionImage, OptionCommand)
		}
	}
	program := Program{Image: options[OptionImage], Command: strings.Fields(options[OptionCommand])}
	if program.Image == "" {
		return Program{}, fmt.Errorf("machines.providerOptions.%s.%s: it is missing; name an image that has kubemark", Name, OptionImage)
	}
	if len(program.Command) == 0 {
		program.Command = []string{defaultCommand}
	}
	return program, nil
}

// check refuses a Machine that asks for another program.
func (p Program) check(spec *ProviderSpec) error {
	switch {
	case spec.Image != "" && spec.Image != p.Image:
		return provider.InvalidConfiguration("spec.providerSpec.value.image: Machines run the image of machines.providerOptions.%s.%s, which is %s; "+
			"leave the field out, or have an administrator change the option", Name, OptionImage, p.Image)
	case len(spec.Command) > 0 && !slices.Equal(spec.Command, p.Command):
		return provider.InvalidConfiguration("spec.providerSpec.value.command: Machines run the command of machines.providerOptions.%s.%s, which is %q; "+
			"leave the field out, or have an administrator change the option", Name, OptionCommand, strings.Join(p.Command, " "))
	}
	return nil
}
