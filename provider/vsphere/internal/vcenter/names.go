package vcenter

import (
	"reflect"
	"strings"

	"github.com/vmware/govmomi/vim25/soap"
)

// methodOf returns the name of the SOAP method that a request calls.
func methodOf(request soap.HasFault) string {
	return strings.TrimSuffix(reflect.Indirect(reflect.ValueOf(request)).Type().Name(), "Body")
}

const resourceSession = "rest/com/vmware/cis/session"

// resources are the resources of the REST API that Drover calls.
var resources = []string{
	resourceSession, "rest/com/vmware/cis/tagging/category", "rest/com/vmware/cis/tagging/tag",
	"rest/com/vmware/cis/tagging/tag-association",
}

// resourceOf returns the REST resource of a path. What follows it are identities, which the vCenter chooses and which would make a metric of each.
func resourceOf(path string) string {
	for _, resource := range resources {
		rest, found := strings.CutPrefix(strings.Trim(path, "/"), resource)
		switch {
		case found && rest == "":
			return resource
		case found && strings.HasPrefix(rest, "/"):
			return resource + "/ID"
		}
	}
	return "other"
}
