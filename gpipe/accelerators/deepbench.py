"""Prints the efficiencies of p100.yaml and v100.yaml from DeepBench's sheets.

The sheets are results/train/DeepBench_NV_P100.xlsx and DeepBench_NV_V100.xlsx of
github.com/baidu-research/DeepBench (commit da81ba7). For each kind of product, and
each power of two that its smallest dimension is at least, it prints the median share
of the peak, and the lowest and highest share as its band.

    python3 deepbench.py DeepBench_NV_P100.xlsx "Results FP32" f32 9.3
"""

import re
import statistics
import sys
import xml.etree.ElementTree as xml
import zipfile

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def rows(file, sheet):
    """The rows of a sheet: texts by the letters of their columns."""
    book = zipfile.ZipFile(file)
    texts = ["".join(t.text or "" for t in item.iter(MAIN + "t")) for item in xml.fromstring(book.read("xl/sharedStrings.xml"))]
    targets = {r.get("Id"): r.get("Target") for r in xml.fromstring(book.read("xl/_rels/workbook.xml.rels"))}
    ids = {s.get("name"): s.get(LINK) for s in xml.fromstring(book.read("xl/workbook.xml")).iter(MAIN + "sheet")}
    for row in xml.fromstring(book.read("xl/" + targets[ids[sheet]])).iter(MAIN + "row"):
        cells = {}
        for cell in row:
            value = cell.find(MAIN + "v")
            if value is not None:
                text = texts[int(value.text)] if cell.get("t") == "s" else value.text
                cells[re.match("[A-Z]+", cell.get("r")).group()] = text
        yield cells


def products(file, sheet):
    """Kind, smallest dimension and TFLOP/s of every product of a sheet."""
    part = ""
    for row in rows(file, sheet):
        part = row.get("A", part)
        number = lambda column: float(row[column])
        try:
            if part.startswith("Dense"):
                yield "dense", min(number("C"), number("D"), number("E")), number("J")
            if part.startswith("Convolution"):
                channels, examples, filters = number("E"), number("F"), number("G")
                kernel, stride = (number("H"), number("I")), (number("L"), number("M"))
                least = min(examples * number("R") * number("S"), filters, channels * kernel[0] * kernel[1])
                kind = "conv"
                if kernel == (1, 1):
                    kind = "conv-1x1"
                elif kernel == (3, 3) and stride == (1, 1):
                    kind = "conv-3x3"  # cuDNN has Winograd's algorithm for these
                for column, gradient in ("U", ""), ("V", "-input-grad"), ("W", "-weight-grad"):
                    if not row[column].startswith("N/A"):
                        yield kind + gradient, least, number(column)
        except (KeyError, ValueError):
            pass  # a heading or a note


def main(file, sheet, dtype, peak):
    shares = {}
    for kind, least, rate in products(file, sheet):
        size = 1
        while 2 * size <= least:
            size *= 2
        shares.setdefault(kind, {}).setdefault(size, []).append(rate / float(peak))
    for kind, sizes in sorted(shares.items()):
        print(f"  - of: {kind}\n    dtype: {dtype}\n    sizes:")
        for size, of in sorted(sizes.items()):
            print(f"      - {{size: {size}, share: {statistics.median(of):.3f}, band: [{min(of):.3f}, {max(of):.3f}]}} # of {len(of)}")
        print('    source: "verified: DeepBench, ' + re.sub(".*/", "", file) + ", " + sheet + '"')


main(*sys.argv[1:])
