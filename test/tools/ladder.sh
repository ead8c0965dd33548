#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The GPU's steps of `limber reproduce ladder`, on stand-ins for the driver, NVRTC and nvdisasm.
# Arguments: the tool, the stand-ins for libcuda and NVRTC.
limber=$1
LIMBER_CUDA=$2 LIMBER_NVRTC=$3
export LIMBER_CUDA LIMBER_NVRTC
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2
drawn=0
command -v gnuplot > /dev/null || drawn=1     # the data is kept, and the status tells

# Stands for nvdisasm.  A stage is 32 rounds of LDSM, HMMA, HMMA and BRA, and four instructions once
# a warp; a warp's copies are two instructions a block.  The last jump back is of no loop.
mkdir bin
cat > bin/nvdisasm << 'END'
#!/bin/sh
cat "$2" > /dev/null && cat << 'TEXT'
limber_ladder:
.text.limber_ladder:
.L_x_5:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDGSTS.E.BYPASS.128 [R3], [R2.64] ;
        /*0020*/                   STS.128 [R3], R4 ;
        /*0030*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_0:
        /*0040*/                   LDSM.16.M88.4 R8, [R3] ;
        /*0050*/                   HMMA.16816.F32 R12, R8, R4, R12 ;
        /*0060*/                   HMMA.16816.F32 R16, R8, R6, R16 ;
        /*0070*/                   NOP ;
        /*0080*/              @!P0 BRA `(.L_x_0) ;
        /*0090*/               @P1 BRA `(.L_x_1) ;
.L_x_10:
        /*00a0*/                   UTMALDG.3D [UR8], [UR18] ;
        /*00b0*/               @P0 BRA `(.L_x_10) ;
        /*00c0*/                   EXIT ;
.L_x_8:
        /*00d0*/                   BRA `(.L_x_5) ;
TEXT
END
# the same in PTX, with the mark of an inner wait
cat > bin/ptx << 'END'
#!/bin/sh
cat << 'TEXT'
.visible .entry limber_ladder(
{
	.reg .b32 	%r<5>;
	ld.param.u32 	%r1, [limber_ladder_param_0+256];
$L__BB0_1:
	cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;
	st.shared.v4.u32 	[%r3], {%r4, %r5, %r6, %r7};
	bar.sync 	0;
$L__BB0_2:
	ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1};
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1};
	@%p1 bra 	$L__BB0_2;
	@%p2 bra 	$L__BB0_1;
$L__BB0_10:
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];
	@%p1 bra 	$L__BB0_10;
	ret;
}
TEXT
END
chmod +x bin/nvdisasm bin/ptx

# Makes the figure.
ladder() {  # VARIABLE=VALUE...
    env "$@" "$limber" reproduce --quick -o out ladder
}
# Prints how many rows match.
rows() {  # pattern: how many steps' rows have it
    grep -Ec "$1" out/ladder-gpu.csv
}
# every step runs on the device and is right; instructions are counted for 1024 multiply-adds
counts='1\.0332,0\.5,0\.25781,0\.0087891,0\.0078125,.*,[0-9.e-]+$'
expect $drawn '^ladder-gpu$' ladder SIMT_CC=90 PATH="$work/bin:$PATH"
expect 0 '^6$' rows ",sm_90,$counts"
expect 0 '^6 0.75$' awk -F, '/^fragments/ { a = $9 } /^conflict/ { print a, $9 }' out/ladder-gpu.csv
mv bin/ptx bin/nvdisasm
expect $drawn '^ladder-gpu$' ladder SIMT_CC=90 PATH="$work/bin:$PATH"
expect 0 '^6$' rows ",sm_90,$counts"
# 8.0 has no TMA; the stand-in for NVRTC makes no code of a GPU, which could be counted
expect $drawn '^pipelined' ladder SIMT_CC=80
expect 0 '^5$' rows '[a-z],,,,,,,.*,[0-9.e-]+$'
expect 1 'specialised by warp gives a wrong product' ladder SIMT_CC=90 \
    SIMT_FAULT='a.map[1], s * DEPTH=>a.map[1], DEPTH'
expect 1 'NVRTC does not compile naive for sm_90' ladder SIMT_CC=90 \
    SIMT_FAULT='float sum = 0, x, y, unused;=>float sum = 0;'
# without NVRTC, or with one that compiles nothing, and without a GPU, it is left out
rm -r out
expect $drawn 'ladder-gpu is left out: NVRTC' ladder LIMBER_NVRTC=/nonexistent
expect $drawn 'NVRTC does not compile naive for sm_90: .*no such text' ladder \
    LIMBER_CUDA=/nonexistent SIMT_FAULT='no such text=>none'
expect 0 '^ladder.csv$' ls out
finish
