package arena

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages: matrix products walk several matrices at once and
// would miss the TLB otherwise. It is only a hint, so a failure is ignored.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
