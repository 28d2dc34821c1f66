package machinejson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const listEnd = `],"kind":"MachineList","metadata":{"continue":"","resourceVersion":"7"}}` + "\n"

// listOf writes a list as the API server does.
func listOf(items ...string) string { return string(listStart) + strings.Join(items, ",") + listEnd }

// machineWith returns a Machine whose metadata has some members, as the API server writes it.
func machineWith(metadata string) string {
	return fmt.Sprintf(`%s"metadata":{%s},"spec":{"providerSpec":{"value":{"managedFields":[1],"metadata":{"managedFields":[2]}}}}}`,
		`{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine",`, metadata)
}

// item is a Machine with managedFields and an annotation of a length.
func item(name string, length int) string {
	return machineWith(fmt.Sprintf(`"annotations":{"a":"]},\"%s"},"managedFields":[{"manager":"x"}],"name":%q`, strings.Repeat("x", length), name))
}

// plain is a list as encoding/json decodes it.
func plain(t *testing.T, text string) (all []*machinev1beta1.Machine, of metav1.ListMeta) {
	t.Helper()
	var list machinev1beta1.MachineList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].TypeMeta, list.Items[i].ManagedFields = metav1.TypeMeta{}, nil
		all = append(all, &list.Items[i])
	}
	return all, list.ListMeta
}

// TestDecodeList: a list is what encoding/json makes of it, however it is written and in whatever pieces it comes.
func TestDecodeList(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              listOf(),
		"one":                listOf(item("a", 0)),
		"some":               listOf(item("a", 3), item("b", 0), item("c", 9)),
		"longer than buffer": listOf(item("a", 0), item("b", 3*listBuffer), item("c", listBuffer), item("d", 1)),
		"more than buffer":   listOf(item("a", listBuffer/2), item("b", listBuffer/2-100), item("c", listBuffer/2)),
		"other order":        `{"kind":"MachineList","metadata":{"resourceVersion":"9"},"items":[` + item("a", 0) + `]}`,
		"blanks":             `{ "items": [ ` + item("a", 0) + ` , ` + item("b", 0) + ` ], "kind": "MachineList", "metadata": {"resourceVersion": "9"} }`,
		"blanks in the list": string(listStart) + " " + item("a", 0) + " ,\n" + item("b", 0) + " " + listEnd,
		"null":               `{"items":null,"kind":"MachineList","metadata":{"resourceVersion":"9"}}`,
	} {
		want, wantMeta := plain(t, text)
		for pieces, from := range map[string]io.Reader{
			"whole": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)),
			"last with EOF": iotest.DataErrReader(strings.NewReader(text)), "bytes": iotest.OneByteReader(strings.NewReader(text)),
		} {
			t.Run(name+"/"+pieces, func(t *testing.T) {
				var got []*machinev1beta1.Machine
				gotMeta, err := DecodeList(from, func(machine *machinev1beta1.Machine) { got = append(got, machine) })
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got) + cmp.Diff(wantMeta, gotMeta); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestDecodeList_CutOff: a list that ends anywhere is an error, also when it is cut off between two Machines.
func TestDecodeList_CutOff(t *testing.T) {
	text := strings.TrimSpace(listOf(item("a", 0), item("b", 0)))
	for end := range text {
		if _, err := DecodeList(strings.NewReader(text[:end]), func(*machinev1beta1.Machine) {}); err == nil {
			t.Errorf("no error for %s", text[:end])
		}
	}
	// A connection that breaks has every read fail with the second error.
	for _, broken := range []error{errors.New("the connection broke"), io.ErrUnexpectedEOF} {
		from := io.MultiReader(strings.NewReader(text[:len(text)-40]), iotest.ErrReader(broken))
		if _, err := DecodeList(from, func(*machinev1beta1.Machine) {}); !errors.Is(err, broken) {
			t.Errorf("error %v, want that of the connection", err)
		}
	}
}

func TestDecodeList_Invalid(t *testing.T) {
	for _, text := range []string{
		listOf(`{"metadata":{}`), listOf(item("a", 0) + `}`), listOf(item("a", 0), ""), listOf("", item("a", 0)), listOf(item("a", 0) + item("b", 0)),
		listOf(item("a", 0), `[]`), string(listStart) + item("a", 0) + `]x` + listEnd, string(listStart) + `]`,
		`{}`, `null`, ``, `{"apiVersion":"v1","kind":"Status","status":"Failure"}`, string(listStart) + `],"kind":"MachineList","metadata":{}}`,
		string(listStart) + `],"kind":"Table","metadata":{"resourceVersion":"7"}}`,
	} {
		if meta, err := DecodeList(strings.NewReader(text), func(*machinev1beta1.Machine) {}); err == nil {
			t.Errorf("no error but %v for %s", meta, text)
		}
	}
}

// FuzzDecodeList: in whatever pieces a list comes, if it is read without an error it is what sigs.k8s.io/json makes of the whole text. What is not
// JSON may be read, too: what is left out as managedFields is not looked at.
func FuzzDecodeList(f *testing.F) {
	f.Add(item("a", 3)+","+item("b", 0), 7)
	f.Add(" "+item("a", 0)+"\n, "+item("b", 1), 1)
	f.Add(``, 3)
	f.Add(`{"metadata":{"name":"]}"}}],"kind":"MachineList"`, 2)
	f.Add(`{"metadata":{"managedFields":}}`, 1)
	f.Add(`null,{"metadata":{"name":"\\\"],["},"spec":{"taints":[{"key":"k"}]}}`, 64)
	f.Fuzz(func(t *testing.T, items string, piece int) {
		text := listOf(items)
		if strings.Count(text, `items"`) > 1 {
			t.Skip("an object with two items says nothing certain")
		}
		var got []*machinev1beta1.Machine
		gotMeta, err := DecodeList(&pieces{strings.NewReader(text), max(1, piece)}, func(machine *machinev1beta1.Machine) { got = append(got, machine) })
		if err != nil || !json.Valid([]byte(text)) {
			return
		}
		want, err := decodeWhole([]byte(text))
		if err != nil {
			t.Fatalf("%s is read, and is no list: %v", text, err)
		}
		if len(got) != len(want.Items) {
			t.Fatalf("%s has %d Machines, want %d", text, len(got), len(want.Items))
		}
		for i := range want.Items {
			want.Items[i].TypeMeta, want.Items[i].ManagedFields = metav1.TypeMeta{}, nil
			if diff := cmp.Diff(&want.Items[i], got[i]); diff != "" {
				t.Errorf("%s: %s", text, diff)
			}
		}
		if diff := cmp.Diff(want.ListMeta, gotMeta); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	})
}

// pieces reads so many bytes at once at most.
type pieces struct {
	from io.Reader
	most int
}

// Read reads the next piece.
func (p *pieces) Read(into []byte) (int, error) { return p.from.Read(into[:min(len(into), p.most)]) }
