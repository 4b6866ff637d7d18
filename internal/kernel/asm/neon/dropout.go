package main

const philoxRounds = 10

// dropout emits the functions for whole groups of 64 elements, of 16 counters with four words each.
func dropout() {
	for _, withAdd := range []bool{false, true} {
		name := "dropout" + when(withAdd, "Add")
		function(name+"Groups", table[name].signature, "is "+name+" for whole groups.", func() {
			dst, x, n := base("dst"), base("x"), length("dst")
			streams := []reg{dst, x}
			var plus reg
			if withAdd {
				plus = base("add")
				streams = append(streams, plus)
			}
			counter := integer("first")
			do("LSR $2, R%d, R%d", counter, counter)
			scale, threshold := splat("scale"), splatInteger(unsigned("threshold"))
			four := bits(4)
			do("LSR $6, R%d, R%d", n, n)
			skipIfZero(n, func() {
				repeat(n, func() {
					counters := addInts(splatInteger(counter), laneNumbers())
					for at := 0; at < 16; at += 4 {
						for w, word := range philox(counters) {
							offset := 4 * (16*w + at)
							v := fmul(ldr(x, offset), and(scale, cmhs(word, threshold)))
							if withAdd {
								v = fadd(v, ldr(plus, offset))
							}
							str(v, dst, offset)
						}
						if at < 12 {
							counters = addInts(counters, four)
						}
					}
					for _, p := range streams {
						advance(p, 256)
					}
					advance(counter, 16)
				})
			})
		})
	}
}

// philox returns the four words of the counters, one for each lane.
func philox(counters reg) [4]reg {
	c := [4]reg{counters}
	for w, name := range []string{"c1", "c2", "c3"} {
		c[w+1] = splatInteger(unsigned(name))
	}
	key := [2]reg{splatInteger(unsigned("k0")), splatInteger(unsigned("k1"))}
	multiplier := [2]reg{bits(0xD2511F53), bits(0xCD9E8D57)}
	weyl := [2]reg{bits(0x9E3779B9), bits(0xBB67AE85)}
	for round := range philoxRounds {
		if round > 0 {
			for w := range key {
				key[w] = addInts(key[w], weyl[w])
			}
		}
		var low, high [2]reg
		for w := range low {
			first, last := umull(c[2*w], multiplier[w]), umull2(c[2*w], multiplier[w])
			low[w], high[w] = uzp1(first, last), uzp2(first, last)
		}
		c = [4]reg{eor(eor(high[1], c[1]), key[0]), low[1], eor(eor(high[0], c[3]), key[1]), low[0]}
	}
	return c
}
