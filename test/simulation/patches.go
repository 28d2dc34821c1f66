package simulation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patched applies a patch to an object.
func patched(k *kind, before client.Object, how types.PatchType, body []byte) (client.Object, error) {
	var after client.Object
	var err error
	switch how {
	case types.MergePatchType:
		if err := bodyGuards(body).check(k, before); err != nil {
			return nil, err
		}
		after, err = merged(before, body)
	case types.JSONPatchType:
		after, err = stepped(k, before, body)
	default:
		err = fmt.Errorf("the simulation knows no patches of the type %s", how)
	}
	if err != nil {
		// So the API server answers when a test does not hold.
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return after, nil
}

// stepped applies a JSON patch.
func stepped(k *kind, before client.Object, body []byte) (client.Object, error) {
	steps, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	if text, err = steps.Apply(text); err != nil {
		return nil, err
	}
	after := k.make()
	return after, json.Unmarshal(text, after)
}

// merged applies a merge patch. The parts that the patch does not name are the same as before, and are not read: most of the time of a
// simulation would go there.
func merged(before client.Object, body []byte) (client.Object, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(body, &parts); err != nil {
		return nil, err
	}
	after, ok := reflect.New(reflect.TypeOf(before).Elem()).Interface().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", before)
	}
	reflect.ValueOf(after).Elem().Set(reflect.ValueOf(before).Elem())
	for name, patch := range parts {
		target := field(after, map[string]string{"metadata": "ObjectMeta", "spec": "Spec", "status": "Status"}[name])
		if !target.IsValid() {
			return nil, fmt.Errorf("the simulation does not know the part %q of %T", name, before)
		}
		text, err := json.Marshal(target.Interface())
		if err != nil {
			return nil, err
		}
		if text, err = jsonpatch.MergePatch(text, patch); err != nil {
			return nil, err
		}
		value := reflect.New(target.Type())
		if err := json.Unmarshal(text, value.Interface()); err != nil {
			return nil, err
		}
		target.Set(value.Elem())
	}
	return after, nil
}

func bodyGuards(body []byte) guards {
	var named struct {
		Metadata struct {
			UID             *types.UID `json:"uid"`
			ResourceVersion *string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	// A body that cannot be read fails when it is applied.
	_ = json.Unmarshal(body, &named)
	return guards{uid: named.Metadata.UID, version: named.Metadata.ResourceVersion}
}

// field finds a field of an object's struct; the zero value when the kind has none of that name.
func field(object client.Object, name string) reflect.Value {
	return reflect.ValueOf(object).Elem().FieldByName(name)
}

// takeStatus gives an object the status of another one.
func takeStatus(k *kind, to, from client.Object) error {
	status := field(to, "Status")
	if !status.IsValid() {
		return nil
	}
	source := field(from, "Status")
	if !source.IsValid() {
		return fmt.Errorf("%s has no status", k.name)
	}
	status.Set(source)
	return nil
}

// keepAllButStatus gives an object everything but the status of the one before it. The two share what is never changed.
func keepAllButStatus(before, after client.Object) {
	status := reflect.New(field(after, "Status").Type()).Elem()
	status.Set(field(after, "Status"))
	reflect.ValueOf(after).Elem().Set(reflect.ValueOf(before).Elem())
	field(after, "Status").Set(status)
}

func sameSpec(a, b client.Object) bool {
	left, right := field(a, "Spec"), field(b, "Spec")
	return !left.IsValid() || apiequality.Semantic.DeepEqual(left.Interface(), right.Interface())
}
