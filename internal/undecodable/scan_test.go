package undecodable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// start is how the API server begins a Machine.
const start = `{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine",`

// machineWith returns a Machine whose metadata has some members, as the API server writes it.
func machineWith(metadata string) string {
	return fmt.Sprintf(`%s"metadata":{%s},"spec":{"providerSpec":{"value":{"managedFields":[1],"metadata":{"managedFields":[2]}}}}}`,
		start, metadata)
}

func TestWithoutManagedFields(t *testing.T) {
	const fields = `"managedFields":[{"fieldsV1":{"f:a":{"k:{\"name\":\"]},\"}":{}}},"manager":"x\\"},{}]`
	for name, c := range map[string]struct{ metadata, want string }{
		"among others": {`"labels":{"a":"b"},` + fields + `,"name":"m"`, `"labels":{"a":"b"},"name":"m"`},
		"first":        {fields + `,"name":"m"`, `"name":"m"`},
		"last":         {`"generation":7,` + fields, `"generation":7`},
		"alone":        {fields, ``},
		"null":         {`"managedFields":null,"name":"m"`, `"name":"m"`},
		"none":         {`"name":"m"`, `"name":"m"`},
		"nothing":      {``, ``},
		"in a text": {
			`"annotations":{"a":"\"managedFields\":[1],","managedFields":"x"},"name":"\\"`,
			`"annotations":{"a":"\"managedFields\":[1],","managedFields":"x"},"name":"\\"`,
		},
		"deeper":           {`"labels":{"managedFields":[3]},"name":"m"`, `"labels":{"managedFields":[3]},"name":"m"`},
		"blanks":           {`"name": "m", ` + fields, `"name": "m"`},
		"another spelling": {`"ManagedFields":[4],"name":"m"`, `"ManagedFields":[4],"name":"m"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := machineWith(c.metadata)
			if !json.Valid([]byte(text)) {
				t.Fatalf("this is no JSON: %s", text)
			}
			if got, want := string(withoutManagedFields([]byte(text))), machineWith(c.want); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
	for _, text := range []string{``, `{}`, `[]`, `{"kind":"Machine"}`, start, start + `"spec":{}}`} {
		if got := string(withoutManagedFields([]byte(text))); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// TestWithoutManagedFields_CutOff: a text that ends anywhere is returned, and nothing after its end is read.
func TestWithoutManagedFields_CutOff(t *testing.T) {
	text := machineWith(`"labels":{"a":"\\"},"managedFields":[{"manager":"x\"y"}],"name":"m"`)
	for end := range text {
		if got := withoutManagedFields(bytes.Clone([]byte(text)[:end:end])); len(got) > end {
			t.Errorf("%s became %s", text[:end], got)
		}
	}
}

// FuzzWithoutManagedFields: of what is JSON nothing but metadata.managedFields is lost.
func FuzzWithoutManagedFields(f *testing.F) {
	f.Add(`"labels":{"a":"\\\""},"managedFields":[{"manager":"x"},{}],"name":"m"`)
	f.Add(`"managedFields":[]`)
	f.Add(`"a":[{"managedFields":["]"]}],"managedFields":"[","z":-1.5e3`)
	f.Add(`"\u006danagedFields":[1],"b":true`)
	f.Fuzz(func(t *testing.T, metadata string) {
		text := []byte(machineWith(metadata))
		var want, got map[string]any
		if json.Unmarshal(text, &want) != nil {
			withoutManagedFields(text)
			return
		}
		after := withoutManagedFields(bytes.Clone(text))
		if err := json.Unmarshal(after, &got); err != nil {
			t.Fatalf("%s became %s: %v", text, after, err)
		}
		for _, object := range []map[string]any{want, got} {
			if metadata, ok := object["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s became %s: %s", text, after, diff)
		}
	})
}
