package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A reg is a register before assign gives it a number: a vector of four float32 lanes, or a general one.
type reg struct {
	id     int
	vector bool
}

// An instruction is a line of a function: of Go's assembler or, where that lacks the instruction,
// a word. The registers' numbers go into the text, which has a verb for each, and into the word.
type instruction struct {
	code uint32
	text string
	regs []reg
}

// places has the bits at which the first, second and third register stand in a word.
var places = []uint{0, 5, 16}

// The function that is being written.
var (
	program    []instruction
	loops      [][2]int // their first instructions, and those after their last ones
	registers  int
	parameters map[string]int // their places on the stack
	order      []string       // their names
)

// What all functions need.
var (
	labels    int
	constants [][4]uint32
	assembly  bytes.Buffer
	stubs     bytes.Buffer
	entries   bytes.Buffer // of the table
	table     map[string]described
)

func vec() reg { registers++; return reg{registers, true} }
func gp() reg  { registers++; return reg{registers, false} }

// do emits a line of Go's assembler.
func do(text string, regs ...reg) { program = append(program, instruction{0, text, regs}) }

// word emits a word.
func word(code uint32, text string, regs ...reg) {
	program = append(program, instruction{code, text, regs})
}

func label(name string) string {
	labels++
	return fmt.Sprintf("%s%d", name, labels)
}

func place(label string)           { do(label + ":") }
func jump(condition, label string) { do(condition + " " + label) }

// loop emits body, which ends with the setting of flags, and a jump back under the condition.
func loop(condition string, body func()) {
	top, start := label("loop"), len(program)
	place(top)
	body()
	jump(condition, top)
	loops = append(loops, [2]int{start, len(program)})
}

// repeat emits a loop of n > 0 steps. It overwrites n.
func repeat(n reg, body func()) {
	loop("BNE", func() {
		body()
		do("SUBS $1, R%d, R%d", n, n)
	})
}

// skipIfZero emits body, which does not run if n is 0.
func skipIfZero(n reg, body func()) {
	end := label("end")
	do("CBZ R%d, "+end, n)
	body()
	place(end)
}

// set emits a line whose last register is new, and returns that.
func set(text string, regs ...reg) reg {
	to := gp()
	do(text, append(regs, to)...)
	return to
}

func move(from reg) reg { return set("MOVD R%d, R%d", from) }

// scaled returns n << bits.
func scaled(n reg, bits int) reg { return set(fmt.Sprintf("LSL $%d, R%%d, R%%d", bits), n) }

func product(a, b reg) reg { return set("MUL R%d, R%d, R%d", a, b) }

func add(n reg, to reg)        { do("ADD R%d, R%d, R%d", n, to, to) }
func advance(p reg, bytes int) { do(fmt.Sprintf("ADD $%d, R%%d, R%%d", bytes), p, p) }
func sum(a, b reg) reg         { to := move(a); add(b, to); return to }
func floats(name string) reg   { return scaled(integer(name), 2) } // in bytes
func base(name string) reg     { return load("MOVD", name, "_base", 0) }
func length(name string) reg   { return load("MOVD", name, "_len", 8) }
func integer(name string) reg  { return load("MOVD", name, "", 0) }
func pointer(name string) reg  { return integer(name) }
func boolean(name string) reg  { return load("MOVBU", name, "", 0) }
func unsigned(name string) reg { return load("MOVWU", name, "", 0) }
func splat(name string) reg    { return dup(lane{scalar(name), 0}) }
func returnFloat(v reg)        { do(fmt.Sprintf("FMOVS F%%d, ret+%d(FP)", parameters["ret"]), v) }
func returnInteger(n reg)      { do(fmt.Sprintf("MOVD R%%d, ret+%d(FP)", parameters["ret"]), n) }

func load(instruction, name, part string, offset int) reg {
	return set(fmt.Sprintf("%s %s%s+%d(FP), R%%d", instruction, name, part, parameters[name]+offset))
}

// scalar loads a float32 into lane 0.
func scalar(name string) reg {
	to := vec()
	do(fmt.Sprintf("FMOVS %s+%d(FP), F%%d", name, parameters[name]), to)
	return to
}

// A described entry of the table has a signature and a comment.
type described struct{ signature, doc string }

// entriesOf reads the entries of the table, which the generator of amd64's vector kernels writes.
func entriesOf(table string) map[string]described {
	of := map[string]described{}
	for _, e := range regexp.MustCompile(`(?m)^\t// \w+ (.+)\n\t(\w+) (func.+)$`).FindAllStringSubmatch(table, -1) {
		of[e[2]] = described{e[3], e[1]}
	}
	return of
}

// kernel emits a function that is an entry of the table.
func kernel(name string, body func()) {
	tabulate(name, "NEON")
	function(name, table[name].signature, table[name].doc, body)
}

// tabulate makes a function with the suffix the table's entry of a name.
func tabulate(name, suffix string) { fmt.Fprintf(&entries, "\n\t%s: %s%s,", name, name, suffix) }

// function emits the function nameNEON. The signature is Go's.
func function(name, signature, doc string, body func()) {
	program, loops, registers = nil, nil, 0
	size := parse(signature)
	body()
	do("RET")
	numbers := assign()
	name += "NEON"
	declaration := "func " + name + strings.TrimPrefix(signature, "func")
	fmt.Fprintf(&stubs, "\n// %s %s\n//\n//go:noescape\n%s\n", name, doc, declaration)
	fmt.Fprintf(&assembly, "\n// %s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", declaration, name, size)
	for _, i := range program {
		text := fmt.Sprintf(i.text, each(i.regs, func(r reg) any { return numbers[r] })...)
		switch {
		case i.code != 0:
			code := i.code
			for j, r := range i.regs {
				code |= uint32(numbers[r]) << places[j]
			}
			fmt.Fprintf(&assembly, "\tWORD $0x%08x // %s\n", code, text)
		case strings.HasSuffix(text, ":"):
			fmt.Fprintf(&assembly, "\n%s\n", text)
		default:
			fmt.Fprintf(&assembly, "\t%s\n", text)
		}
	}
}

func each[T, U any](x []T, f func(T) U) []U {
	y := make([]U, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

// parse finds the parameters' places and returns the size of all.
func parse(signature string) int {
	parameters, order = map[string]int{}, nil
	inside, result, _ := strings.Cut(strings.TrimPrefix(signature, "func("), ")")
	offset := 0
	put := func(name, kind string) {
		size, align := 8, 8
		switch kind {
		case "float32", "uint32":
			size, align = 4, 4
		case "bool":
			size, align = 1, 1
		}
		if strings.HasPrefix(kind, "[]") {
			size = 24
		}
		offset = (offset + align - 1) / align * align
		parameters[name] = offset
		offset += size
	}
	var names []string
	for _, p := range strings.Split(inside, ", ") {
		name, kind, typed := strings.Cut(p, " ")
		names, order = append(names, name), append(order, name)
		if typed {
			for _, name := range names {
				put(name, kind)
			}
			names = nil
		}
	}
	if result = strings.TrimSpace(result); result != "" {
		offset = (offset + 7) / 8 * 8
		put("ret", result)
	}
	return offset
}

// Registers that are free for a function: not the assembler's and the linker's R16, R17 and R27,
// the platform's R18, the goroutine's R28, the frame's R29 and the link R30.
var (
	general = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 21, 22, 23, 24, 25, 26}
	vectors = []int{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
		16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
	}
)

// assign numbers the registers by a linear scan: each has a number from the first instruction that
// names it, which must set it, to the last one; to the end of a loop if it is older than the loop.
// The number that has been free for longest is taken.
func assign() map[reg]int {
	first, last := map[reg]int{}, map[reg]int{}
	for at, i := range program {
		for _, r := range i.regs {
			if _, seen := first[r]; !seen {
				first[r] = at
			}
			last[r] = at
		}
	}
	for _, l := range loops { // inner ones first
		for r, from := range first {
			if from < l[0] && l[0] <= last[r] && last[r] < l[1] {
				last[r] = l[1]
			}
		}
	}
	numbers := map[reg]int{}
	free := map[bool][]int{false: slices.Clone(general), true: slices.Clone(vectors)}
	var live []reg
	for at, i := range program {
		live = slices.DeleteFunc(live, func(r reg) bool {
			over := last[r] < at || last[r] == at && first[r] < at
			if over {
				free[r.vector] = append(free[r.vector], numbers[r])
			}
			return over
		})
		for _, r := range i.regs {
			if first[r] != at || slices.Contains(live, r) {
				continue
			}
			if len(free[r.vector]) == 0 {
				panic(fmt.Sprintf("no register left at %q", i.text))
			}
			numbers[r], free[r.vector] = free[r.vector][0], free[r.vector][1:]
			live = append(live, r)
		}
	}
	return numbers
}
