package tree

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made")
	write := func(files map[string][]byte) {
		t.Helper()
		if err := Write(folder, []string{"mine", "one.txt"}, files); err != nil {
			t.Fatal(err)
		}
	}
	write(map[string][]byte{"mine/a/x": []byte("1"), "mine/y": []byte("1"), "one.txt": []byte("1")})
	if err := os.WriteFile(filepath.Join(folder, "other"), []byte("of another writer"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(map[string][]byte{"mine/y": []byte("2")})
	for name, want := range map[string]string{"mine/a/x": "", "one.txt": "", "mine/y": "2", "other": "of another writer"} {
		got, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		if string(got) != want || os.IsNotExist(err) != (want == "") {
			t.Errorf("%s has %q (%v), want %q", name, got, err, want)
		}
	}
}
