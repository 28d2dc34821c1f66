package cluster

import "testing"

// TestChoosePorts: a port that was chosen is not chosen for another control plane, and its own gets it back.
func TestChoosePorts(t *testing.T) {
	names := []string{"one", "two", "three"}
	first, err := choosePorts(nil, names)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := choosePorts(first, names); err != nil || len(again) != 3 || again["one"] != first["one"] || again["three"] != first["three"] {
		t.Errorf("the ports were %v, and are %v: %v", first, again, err)
	}
	if err := claim(first["two"], false); err == nil {
		t.Errorf("port %d is given away twice", first["two"])
	}
	same, err := choosePorts(ports{"one": first["one"], "two": first["one"]}, names)
	if err != nil || same["one"] != first["one"] || same["two"] == first["one"] {
		t.Errorf("two components share a port: %v, %v", same, err)
	}
}
