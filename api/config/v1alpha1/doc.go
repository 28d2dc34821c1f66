// Package v1alpha1 is the format of Drover's configuration file: config.drover.dev/v1alpha1, kind DroverConfiguration.
package v1alpha1
