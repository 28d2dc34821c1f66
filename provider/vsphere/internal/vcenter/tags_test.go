package vcenter

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"

	simulated "github.com/drover-io/drover/test/vcenter"
)

// TestAttachTag: a virtual machine has the tag then.
func TestAttachTag(t *testing.T) {
	v, client, _ := newSimulated(t)
	vm, err := find.NewFinder(client).VirtualMachine(t.Context(), "/"+simulated.Datacenter+"/vm/"+simulated.Template)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := v.FindTag(t.Context(), "openshift-cluster-a", "cluster-a")
	if err != nil {
		t.Fatal(err)
	}
	if failed, err := v.attachTag(t.Context(), tag, []types.ManagedObjectReference{vm.Reference()}); err != nil || len(failed) > 0 {
		t.Fatalf("%v, %v", failed, err)
	}
	attached, err := tags.NewManager(v.sessions.current.rest.client).ListAttachedTags(t.Context(), vm)
	if err != nil || len(attached) != 1 || attached[0] != tag {
		t.Errorf("it has the tags %q, %v", attached, err)
	}
}

// refusesTags answers as a vCenter that cannot attach a tag to one of the objects.
type refusesTags struct {
	http.RoundTripper
	refused string
	calls   int
}

// RoundTrip makes a call, or answers it.
func (r *refusesTags) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.Contains(request.URL.RawQuery, "attach-tag-to-multiple-objects") {
		return r.RoundTripper.RoundTrip(request)
	}
	r.calls++
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"value": map[string]any{"success": true}}
	if strings.Contains(string(body), r.refused) {
		answer["value"] = map[string]any{"success": false, "error_messages": []any{map[string]any{"default_message": "no privilege"}}}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Request: request, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text))}, nil
}

// TestAttachTag_Fails: an answer with status 200 may say that the tag has not been attached to one of the virtual machines.
func TestAttachTag_Fails(t *testing.T) {
	v, _, _ := newSimulated(t)
	tag, err := v.FindTag(t.Context(), "openshift-cluster-a", "cluster-a")
	if err != nil {
		t.Fatal(err)
	}
	client := v.sessions.current.rest.client
	refusing := &refusesTags{RoundTripper: client.Transport, refused: "vm-2"}
	client.Transport = refusing
	failed, err := v.attachTag(t.Context(), tag, []types.ManagedObjectReference{ref("vm-1"), ref("vm-2")})
	if err != nil || failed[ref("vm-1")] != nil || failed[ref("vm-2")] == nil || !strings.Contains(failed[ref("vm-2")].Error(), "no privilege") {
		t.Errorf("%v, %v", failed, err)
	}
	if refusing.calls != 3 {
		t.Errorf("there were %d calls", refusing.calls)
	}
	if _, err := v.attachTag(t.Context(), tag, []types.ManagedObjectReference{ref("vm-2")}); err == nil {
		t.Error("one alone is taken for attached")
	}
}
