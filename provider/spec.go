package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// hugeExponent is a number or quantity with an exponent of three digits or more. To parse 1e-1000000000 resource.Quantity needs gigabytes
// (https://github.com/kubernetes/apimachinery/blob/v0.37.1/pkg/api/resource/quantity.go).
var hugeExponent = regexp.MustCompile(`^[+-]?[0-9.]+[eE][+-]?[0-9]{3,}$`)

// DecodeSpec reads a providerSpec. Its error is terminal: a field that is unknown, because it is misspelt, or of another type, or a number with an
// exponent of three digits or more. Without that bound the author of a Machine could fill the memory of the operator with one quantity.
func DecodeSpec(raw []byte, spec any) error {
	const field = "spec.providerSpec.value"
	tokens := json.NewDecoder(bytes.NewReader(raw))
	tokens.UseNumber()
	for {
		token, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return InvalidConfiguration("%s: %w", field, err)
		}
		switch token.(type) {
		case string, json.Number:
			if text := fmt.Sprint(token); hugeExponent.MatchString(text) {
				return InvalidConfiguration("%s: %.50s: the exponent must not have more than two digits", field, text)
			}
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(spec); err != nil {
		return InvalidConfiguration("%s: %w", field, err)
	}
	return nil
}
