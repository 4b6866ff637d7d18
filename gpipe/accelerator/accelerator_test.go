package accelerator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerators"
)

// Every figure that comes with the program says where it is from.
func TestAcceleratorsHaveSources(t *testing.T) {
	list, err := All()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, a := range list {
		names[a.Name] = true
		want := []string{"flops", "memory", "bandwidth", "overhead", "link"}
		if a.Lanes > 1 {
			want = append(want, "lanes")
		}
		if a.Tiled {
			want = append(want, "tiled")
		}
		if a.Fused {
			want = append(want, "fused")
		}
		for _, field := range want {
			if a.Sources[field] == "" {
				t.Errorf("%s: no source of its %s", a.Name, field)
			}
		}
		if a.Ops != nil {
			t.Errorf("%s: rates by operation, which no data sheet has", a.Name)
		}
	}
	for _, name := range []string{"tpuv2", "tpuv3", "p100", "v100", "a100", "h100"} {
		if !names[name] {
			t.Errorf("no %s", name)
		}
	}
}

const ownChip = `name: own
flops: {bf16: 10e12}
memory: 2GiB
bandwidth: 1e11
lanes: 16
link: {bandwidth: 1e9, through_host: true}
ops:
  attention: {flops: 1e12}
shapes:
  "matmul 4x8 8x8 -> 4x8": 2e-6
`

func TestAcceleratorFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte(ownChip), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Named(file)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "own" || a.BF16 != 10e12 || a.F32 != 0 || a.Memory != 2<<30 || a.Bandwidth != 1e11 || a.Lanes != 16 ||
		a.Link.Bandwidth != 1e9 || !a.Link.ThroughHost || a.Overhead != 0 || a.Ops["attention"].FLOPs != 1e12 {
		t.Errorf("read %+v", a)
	}
}

// A file is refused with a line, a column and what would be accepted there.
func TestAcceleratorFileRefuses(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"lanes: 16", "lane: 16", "own.yaml:5:1: unknown field lane: want name, description, flops,"},
		{"bf16: 10e12", "fp8: 10e12", "own.yaml:2:9: unknown field flops.fp8: want bf16, f32"},
		{"{bf16: 10e12}", "{}", "own.yaml:2:8: no rate: want bf16, f32 or both"},
		{"10e12", "fast", `own.yaml:2:15: "fast" is no number: want floating-point operations a second`},
		{"10e12", "-1", "own.yaml:2:15: -1: want floating-point operations a second from 1"},
		{"10e12", ".nan", `own.yaml:2:15: ".nan" is no number`},
		{"10e12", "Inf", "own.yaml:2:15: Inf: want"},
		{"bandwidth: 1e11", "bandwidth: 0", "own.yaml:4:12: 0: want bytes a second from 1"},
		{"2GiB", "0", `own.yaml:3:9: "0": want bytes from 1 to 1024TiB`},
		{"2GiB", "9999999999GiB", `own.yaml:3:9: "9999999999GiB": want bytes`},
		{"2GiB", "2GB", `own.yaml:3:9: "2GB": want bytes`},
		{"lanes: 16", "lanes: 16.5", `own.yaml:5:8: "16.5": want a whole number`},
		{"lanes: 16", "lanes: 0", "own.yaml:5:8: 0: want lanes from 1"},
		{"true", "yes", `own.yaml:6:38: "yes": want true or false`},
		{"bandwidth: 1e9, ", "", "own.yaml:6:7: no link.bandwidth: it cannot be left out"},
		{"memory: 2GiB\n", "", "own.yaml:1:1: no memory: it cannot be left out"},
		{"2e-6", "fast", "own.yaml:10:28: "},
		{"2e-6", "2e-6\n  \"matmul 4x8 8x8 -> 4x8\": 1", "own.yaml:11:3: \"matmul 4x8 8x8 -> 4x8\" is there twice: want it once"},
		{"lanes: 16", "name: own", "own.yaml:5:1: name is there twice"},
		{"name: own", "name: My Chip", `own.yaml:1:7: name "My Chip": want lower-case`},
		{"  attention:", "  attentoin:", "own.yaml:8:3: unknown field ops.attentoin: want add, attention,"},
		{"{flops: 1e12}", "1e12", "own.yaml:8:14: ops.attention: want fields: flops, bandwidth, weights, overhead"},
		{ownChip, "", "own.yaml:1:1: an empty file"},
		{"name: own", "name: [", "own.yaml:"},
		{"name: own", "name: own\n---", "own.yaml:"},
		{ownChip, ownChip + "---\nname: other\n", fmt.Sprintf("own.yaml:%d:1: a second document: want one in a file", 2+strings.Count(ownChip, "\n"))},
		{ownChip, "- 1\n", "own.yaml:1:1: want an accelerator's fields: name"},
	} {
		text := strings.Replace(ownChip, test.from, test.to, 1)
		if text == ownChip {
			t.Fatalf("%q is not in the file", test.from)
		}
		_, err := Read("own.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q for %q: %v, want %s", test.to, test.from, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(ownChip)
	f.Add("a: &a [*a]")
	list, err := accelerators.Files.ReadDir(".")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range list {
		text, err := accelerators.Files.ReadFile(file.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Read("own.yaml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "own.yaml:") {
				t.Errorf("%q names no place", err)
			}
			return
		}
		if a.Memory < 1 || !(a.Bandwidth > 0) || a.Lanes < 1 || !(a.BF16 > 0 || a.F32 > 0) || !(a.Overhead >= 0) {
			t.Errorf("accepted %+v", a)
		}
	})
}
