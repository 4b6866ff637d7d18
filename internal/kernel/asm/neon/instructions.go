package main

import (
	"fmt"
	"math"
	"slices"
)

// The instructions on vectors, by the encodings of Arm's Architecture Reference Manual (DDI 0487,
// section C7.2). TestEncodings checks each word that is emitted.

// made emits a word whose first register is new, and returns that.
func made(code uint32, text string, regs ...reg) reg {
	d := vec()
	word(code, text, append([]reg{d}, regs...)...)
	return d
}

func binary(name, to, from string, code uint32) func(a, b reg) reg {
	op := inPlace(name, to, from, code)
	return func(a, b reg) reg {
		d := vec()
		op(d, a, b)
		return d
	}
}

func unary(name, to, from string, code uint32) func(a reg) reg {
	text := fmt.Sprintf("%s v%%d.%s, v%%d.%s", name, to, from)
	return func(a reg) reg { return made(code, text, a) }
}

// inPlace instructions read their first register as well.
func inPlace(name, to, from string, code uint32) func(d, a, b reg) {
	text := fmt.Sprintf("%s v%%d.%s, v%%d.%[3]s, v%%d.%[3]s", name, to, from)
	return func(d, a, b reg) { word(code, text, d, a, b) }
}

func shift(name string, code uint32, field func(bits int) int) func(a reg, bits int) reg {
	return func(a reg, bits int) reg {
		return made(code|uint32(field(bits))<<16, fmt.Sprintf("%s v%%d.4s, v%%d.4s, #%d", name, bits), a)
	}
}

var (
	fadd  = binary("fadd", "4s", "4s", 0x4e20d400)
	fsub  = binary("fsub", "4s", "4s", 0x4ea0d400)
	fmul  = binary("fmul", "4s", "4s", 0x6e20dc00)
	fdiv  = binary("fdiv", "4s", "4s", 0x6e20fc00)
	fmax  = binary("fmax", "4s", "4s", 0x4e20f400) // NaN if one is
	fmin  = binary("fmin", "4s", "4s", 0x4ea0f400)
	fcmeq = binary("fcmeq", "4s", "4s", 0x4e20e400)
	fcmge = binary("fcmge", "4s", "4s", 0x6e20e400)
	fcmgt = binary("fcmgt", "4s", "4s", 0x6ea0e400)
	fabs  = unary("fabs", "4s", "4s", 0x4ea0f800)
	fneg  = unary("fneg", "4s", "4s", 0x6ea0f800)
	fsqrt = unary("fsqrt", "4s", "4s", 0x6ea1f800)
	fmla  = inPlace("fmla", "4s", "4s", 0x4e20cc00) // d + a*b
	fmls  = inPlace("fmls", "4s", "4s", 0x4ea0cc00) // d - a*b

	positive = unary("fcmgt", "4s", "4s, #0.0", 0x4ea0c800)
	negative = unary("fcmlt", "4s", "4s, #0.0", 0x4ea0e800)

	and = binary("and", "16b", "16b", 0x4e201c00)
	bic = binary("bic", "16b", "16b", 0x4e601c00) // a and not b
	orr = binary("orr", "16b", "16b", 0x4ea01c00)
	eor = binary("eor", "16b", "16b", 0x6e201c00)
	bsl = inPlace("bsl", "16b", "16b", 0x6e601c00) // a where d is set, else b
	bit = inPlace("bit", "16b", "16b", 0x6ea01c00) // a where b is set, else d
	bif = inPlace("bif", "16b", "16b", 0x6ee01c00) // a where b is not set, else d

	addInts  = binary("add", "4s", "4s", 0x4ea08400)
	subInts  = binary("sub", "4s", "4s", 0x6ea08400)
	cmhs     = binary("cmhs", "4s", "4s", 0x6ea03c00) // unsigned, at least
	cmhi     = binary("cmhi", "4s", "4s", 0x6ea03400) // unsigned, greater
	umax     = binary("umax", "4s", "4s", 0x6ea06400)
	umull    = binary("umull", "2d", "2s", 0x2ea0c000)
	umull2   = binary("umull2", "2d", "4s", 0x6ea0c000)
	shl      = shift("shl", 0x4f005400, func(bits int) int { return 32 + bits })
	sshr     = shift("sshr", 0x4f000400, func(bits int) int { return 64 - bits })
	ushr     = shift("ushr", 0x6f000400, func(bits int) int { return 64 - bits })
	uzp1     = binary("uzp1", "4s", "4s", 0x4e801800) // even lanes
	uzp2     = binary("uzp2", "4s", "4s", 0x4e805800) // odd lanes
	uzp2Half = binary("uzp2", "8h", "8h", 0x4e405800)
	trn1     = binary("trn1", "4s", "4s", 0x4e802800)
	trn2     = binary("trn2", "4s", "4s", 0x4e806800)
	trn1Pair = binary("trn1", "2d", "2d", 0x4ec02800)
	trn2Pair = binary("trn2", "2d", "2d", 0x4ec06800)
	widen    = unary("shll", "4s", "4h, #16", 0x2e613800)

	lowDoubles  = unary("fcvtl", "2d", "2s", 0x0e617800)
	highDoubles = unary("fcvtl2", "2d", "4s", 0x4e617800)
	fmlaDoubles = inPlace("fmla", "2d", "2d", 0x4e60cc00)
)

func clearTo(d reg) { word(0x4f000400, "movi v%d.4s, #0", d) }

func zero() reg {
	d := vec()
	clearTo(d)
	return d
}

func copyOf(a reg) reg { return orr(a, a) }

// A lane is an operand: one float32 for all lanes.
type lane struct {
	of reg
	n  int
}

func dup(l lane) reg {
	return made(0x4e040400|uint32(l.n)<<19, fmt.Sprintf("dup v%%d.4s, v%%d.s[%d]", l.n), l.of)
}

// upperHalf returns lanes 2 and 3 of a as the first ones.
func upperHalf(a reg) reg { return made(0x4e180400, "dup v%d.2d, v%d.d[1]", a) }

func splatInteger(n reg) reg { return made(0x4e040c00, "dup v%d.4s, w%d", n) }

// splatCount returns the integer n as float32s.
func splatCount(n reg) reg {
	s := vec()
	word(0x9e220000, "scvtf s%d, x%d", s, n)
	return dup(lane{s, 0})
}

func byLane(name string, code uint32, l lane, regs ...reg) {
	code |= uint32(l.n&1)<<21 | uint32(l.n>>1)<<11
	word(code, fmt.Sprintf("%s v%%d.4s, v%%d.4s, v%%d.s[%d]", name, l.n), append(regs, l.of)...)
}

func fmlaLane(d, a reg, l lane) { byLane("fmla", 0x4f801000, l, d, a) }
func fmlsLane(d, a reg, l lane) { byLane("fmls", 0x4f805000, l, d, a) }

// multiplyAdd returns a*b + c.
func multiplyAdd(a, b, c reg) reg {
	d := copyOf(c)
	fmla(d, a, b)
	return d
}

// constant returns x in a register of lanes that up to four constants share.
func constant(x ...float32) []lane {
	var c [4]uint32
	for i := range c {
		c[i] = math.Float32bits(x[min(i, len(x)-1)])
	}
	at := slices.Index(constants, c)
	if at < 0 {
		at, constants = len(constants), append(constants, c)
	}
	p, v := gp(), vec()
	do(fmt.Sprintf("MOVD $constants<>+%d(SB), R%%d", 16*at), p)
	loadTo(v, p, 0)
	lanes := make([]lane, len(x))
	for i := range x {
		lanes[i] = lane{v, i}
	}
	return lanes
}

// bits returns a constant in all lanes.
func bits(x uint32) reg { return dup(constant(math.Float32frombits(x))[0]) }

func all(x float32) reg { return bits(math.Float32bits(x)) }

// Loads and stores of a vector, or of lane 0, from an address and bytes after it.

var (
	loadTo      = access("ldr q", 0x3dc00000, 16)
	str         = access("str q", 0x3d800000, 16)
	loadLane0To = access("ldr s", 0xbd400000, 4)
	strLane     = access("str s", 0xbd000000, 4)
)

// access moves a number of bytes.
func access(name string, code uint32, bytes int) func(v, p reg, offset int) {
	return func(v, p reg, offset int) {
		word(code|uint32(offset/bytes)<<10, fmt.Sprintf("%s%%d, [x%%d, #%d]", name, offset), v, p)
	}
}

func ldr(p reg, offset int) reg {
	d := vec()
	loadTo(d, p, offset)
	return d
}

// ldrAt loads lane 0 from p + offset.
func ldrAt(p, offset reg) reg { return made(0xbc606800, "ldr s%d, [x%d, x%d]", p, offset) }

// loadLane and storeLane move one lane and advance p.

func loadLane(v reg, n int, p reg)  { lanePost("ld1", 0x0ddf8000, v, n, p) }
func storeLane(v reg, n int, p reg) { lanePost("st1", 0x0d9f8000, v, n, p) }

func lanePost(name string, code uint32, v reg, n int, p reg) {
	code |= uint32(n>>1)<<30 | uint32(n&1)<<12
	word(code, fmt.Sprintf("%s {v%%d.s}[%d], [x%%d], #4", name, n), v, p)
}

// splatFrom loads a float32 into all lanes.
func splatFrom(p reg) reg { return made(0x4d40c800, "ld1r {v%d.4s}, [x%d]", p) }

// ldrHalf and strHalf move the lower half of a vector.

func ldrHalf(p reg) reg { return made(0xfd400000, "ldr d%d, [x%d]", p) }

func strHalf(v, p reg) { word(0xfd000000, "str d%d, [x%d]", v, p) }

// umaxAcross returns the largest of the unsigned lanes in lane 0.
func umaxAcross(a reg) reg { return made(0x6eb0a800, "umaxv s%d, v%d.4s", a) }

// fmovTo sets n to lane 0 of v.
func fmovTo(n, v reg) { word(0x1e260000, "fmov w%d, s%d", n, v) }
