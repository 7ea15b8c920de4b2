# SPDX-License-Identifier: Apache-2.0
"""Regenerates tests/cpu/programs/jax_*.hlo with JAX 0.10.2: the modules that JAX hands to XLA for one function each."""
import pathlib

import jax
import jax.numpy as jnp
from jax import lax
from jaxlib._hlo import HloPrintOptions

f32, i32, u32 = jnp.float32, jnp.int32, jnp.uint32
functions = {}


def S(*shape, t=f32):
    return jax.ShapeDtypeStruct(shape, t)


def add(name, function, *arguments):
    functions[name] = (function, arguments)


add('softmax',lambda x:jax.nn.softmax(x),S(16,64))
add('softmax0',lambda x:jax.nn.softmax(x,axis=0),S(16,64))
add('layernorm',lambda x,g,b:(x-x.mean(-1,keepdims=True))*lax.rsqrt(x.var(-1,keepdims=True)+1e-5)*g+b,S(8,32),S(32),S(32))
add('gelu',lambda x:jax.nn.gelu(x),S(33,7))
add('sort',lambda x:jnp.sort(x,axis=0),S(40,3))
add('argsort',lambda x:jnp.argsort(x),S(5,40))
add('argsort_desc',lambda x:jnp.argsort(x,descending=True),S(5,40,t=i32))
add('lexsort',lambda x,y:lax.sort((x,y),num_keys=2),S(50,t=i32),S(50))
add('topk',lambda x:lax.top_k(x,5),S(4,33))
add('argmax',lambda x:jnp.argmax(x,axis=1),S(9,17))
add('argmax_of_integers',lambda x:jnp.argmax(x,axis=1),S(9,17,t=i32))
add('argmin_of_predicates',lambda x:jnp.argmin(x>0,axis=0),S(3,40))
add('select_by_argmax',lambda x:jnp.select([x<-0.5,x<0.5],[x,x*x],1.0),S(9,40))
add('argmin0',lambda x:jnp.argmin(x,axis=0),S(9,17))
add('cumsum',lambda x:jnp.cumsum(x,axis=1),S(4,50))
add('cumprod',lambda x:jnp.cumprod(x,axis=0),S(6,5))
add('cummax',lambda x:lax.cummax(x,axis=1),S(4,50))
add('take',lambda x,i:jnp.take(x,i,axis=0),S(10,6),S(7,t=i32))
add('fancy',lambda x,i,j:x[i,:,j],S(5,6,7),S(4,t=i32),S(4,t=i32))
add('take_along',lambda x,i:jnp.take_along_axis(x,i,axis=1),S(4,7),S(4,3,t=i32))
add('scatter_add',lambda x,i,u:x.at[i].add(u),S(10,6),S(7,t=i32),S(7,6))
add('scatter_set',lambda x,i,u:x.at[i].set(u),S(10,6),S(3,t=i32),S(3,6))
add('scatter_max',lambda x,i,u:x.at[:,i].max(u),S(6,10),S(7,t=i32),S(6,7))
add('scatter_mul',lambda x,i,u:x.at[i].mul(u),S(10),S(7,t=i32),S(7))
add('segment_sum',lambda x,i:jax.ops.segment_sum(x,i,5),S(20,3),S(20,t=i32))
add('embedding_grad',lambda t,i:jax.grad(lambda t:jnp.sum(jnp.tanh(t[i])))(t),S(10,6),S(3,4,t=i32))
add('conv',lambda x,k:lax.conv_general_dilated(x,k,(1,1),'SAME',dimension_numbers=('NHWC','HWIO','NHWC')),S(2,8,8,3),S(3,3,3,5))
add('conv_stride',lambda x,k:lax.conv_general_dilated(x,k,(2,1),[(1,2),(0,1)],lhs_dilation=(1,2),rhs_dilation=(2,1)),S(2,3,9,8),S(4,3,2,3))
add('conv_group',lambda x,k:lax.conv_general_dilated(x,k,(1,),'VALID',feature_group_count=4),S(2,8,12),S(8,2,3))
add('conv_grad',lambda x,k:jax.grad(lambda x,k:jnp.sum(lax.conv_general_dilated(x,k,(2,2),'SAME')**2),argnums=(0,1))(x,k),S(2,3,8,8),S(4,3,3,3))
add('maxpool',lambda x:lax.reduce_window(x,-jnp.inf,lax.max,(1,2,2,1),(1,2,2,1),'VALID'),S(2,8,8,3))
add('avgpool',lambda x:lax.reduce_window(x,0.,lax.add,(1,3,3,1),(1,1,1,1),'SAME'),S(2,8,8,3))
add('maxpool_grad',lambda x:jax.grad(lambda x:jnp.sum(lax.reduce_window(x,-jnp.inf,lax.max,(1,2,2,1),(1,2,2,1),'VALID')**2))(x),S(2,8,8,3))
add('fft',lambda x:jnp.fft.fft(x),S(3,16,t=jnp.complex64))
add('rfft',lambda x:jnp.fft.rfft(x),S(3,15))
add('irfft',lambda x:jnp.fft.irfft(x),S(3,9,t=jnp.complex64))
add('fft2',lambda x:jnp.fft.ifft2(x),S(3,6,10,t=jnp.complex64))
add('uniform',lambda k:jax.random.uniform(jax.random.wrap_key_data(k),(5,7)),S(2,t=u32))
add('normal',lambda k:jax.random.normal(jax.random.wrap_key_data(k),(5,7)),S(2,t=u32))
add('rng_bits',lambda k:lax.rng_bit_generator(k,(5,7),dtype=u32),S(4,t=u32))
add('scan',lambda x,w:lax.scan(lambda c,x:(jnp.tanh(c@w+x),c.sum()),jnp.zeros((4,)),x),S(9,4),S(4,4))
add('scan_grad',lambda x,w:jax.grad(lambda w:lax.scan(lambda c,x:(jnp.tanh(c@w+x),c.sum()),jnp.zeros((4,)),x)[1].sum())(w),S(9,4),S(4,4))
add('fori',lambda x:lax.fori_loop(0,5,lambda i,c:(c[1],c[0]+i),(x,x*2)),S(3))
add('whilecond',lambda x:lax.while_loop(lambda c:c[0].sum()<1000,lambda c:(c[0]*2+1,c[1]+1),(jnp.abs(x),0)),S(3))
add('cond',lambda p,x:lax.cond(p[0]>0,lambda x:jnp.sin(x),lambda x:x*2,x),S(1),S(3,4))
add('switch',lambda i,x:lax.switch(i[0],[lambda x:x+1,lambda x:x*2,lambda x:-x],x),S(1,t=i32),S(3,4))
add('map',lambda x:lax.map(lambda r:jnp.sin(r)*2,x),S(5,4))
add('attention',lambda q,k,v:jnp.einsum('bhqk,bkhd->bqhd',jax.nn.softmax(jnp.einsum('bqhd,bkhd->bhqk',q,k)/4),v),S(2,8,3,16),S(2,8,3,16),S(2,8,3,16))
add('attention_grad',lambda q,k,v:jax.grad(lambda q:jnp.sum(jnp.einsum('bhqk,bkhd->bqhd',jax.nn.softmax(jnp.einsum('bqhd,bkhd->bhqk',q,k)/4),v)))(q),S(2,8,3,16),S(2,8,3,16),S(2,8,3,16))
add('einsum2',lambda a,b:jnp.einsum('abcd,cbde->ae',a,b),S(3,4,5,2),S(5,4,2,6))
add('einsum3',lambda a,b:jnp.einsum('abc,dbc->adb',a,b),S(3,4,5),S(6,4,5))
add('outer',lambda a,b:jnp.outer(a,b),S(7),S(9))
add('vdot',lambda a,b:jnp.vdot(a,b),S(70),S(70))
add('bf16mm',lambda a,b:a@b,S(16,32,t=jnp.bfloat16),S(32,8,t=jnp.bfloat16))
add('bf16mmf32',lambda a,b:jnp.matmul(a,b,preferred_element_type=f32),S(16,32,t=jnp.bfloat16),S(32,8,t=jnp.bfloat16))
add('s8mm',lambda a,b:jnp.matmul(a,b,preferred_element_type=i32),S(16,32,t=jnp.int8),S(32,8,t=jnp.int8))
add('complexmm',lambda a,b:a@b,S(6,5,t=jnp.complex64),S(5,4,t=jnp.complex64))
add('complexops',lambda a,b:(jnp.exp(a)*b/(b+3),jnp.abs(a),jnp.sqrt(a),jnp.sin(a),a**2,jnp.log(a),jnp.tanh(a)),S(6,5,t=jnp.complex64),S(6,5,t=jnp.complex64))
add('onehot',lambda i:jax.nn.one_hot(i,10),S(7,t=i32))
add('where',lambda x,y:jnp.where(x>0,x,y),S(5,5),S(5,5))
add('quantile',lambda x:jnp.median(x,axis=0),S(21,4))
add('clz',lambda x:(lax.clz(x),lax.population_count(x),x//3,x%3,x<<2,x>>1),S(9,t=i32))
add('logsumexp',lambda x:jax.nn.logsumexp(x,axis=1),S(6,40))
add('batchnorm',lambda x:(x-x.mean((0,1,2)))/jnp.sqrt(x.var((0,1,2))+1e-5),S(2,4,4,3))
add('dus_scan',lambda x:lax.fori_loop(0,8,lambda i,c:c.at[i].set(c[i]*2+1),x),S(8,3))
add('roll',lambda x:jnp.roll(x,3,axis=1),S(4,9))
add('flip_pad',lambda x:jnp.pad(x[::-1],((1,2),(0,3)),mode='reflect'),S(5,6))
add('tri',lambda x:jnp.triu(x)+jnp.tril(x,-1)*2,S(6,6))
add('erfs',lambda x:(lax.erf(x),lax.erf_inv(x/3),lax.lgamma(x+3),lax.digamma(x+3),jnp.log1p(x+3),jnp.expm1(x),jnp.cbrt(x),jnp.sinh(x),jnp.arctan(x),jnp.arcsin(x/3),jnp.power(jnp.abs(x),1.3),jnp.arctan2(x,x+1),lax.nextafter(x,x+1),jnp.fmod(x,0.7)),S(50))
add('select_and_gather_add',lambda x,i:lax.dynamic_slice(x,(i[0],i[1]),(2,3)),S(6,7),S(2,t=i32))
add('bitcasts',lambda x:(lax.bitcast_convert_type(x,i32),lax.bitcast_convert_type(x,jnp.uint8),lax.bitcast_convert_type(lax.bitcast_convert_type(x,jnp.uint16),f32)),S(6,4))
add('reduce_prec',lambda x:lax.reduce_precision(x,5,7),S(30))
add('multi_reduce',lambda x,y:lax.reduce((x,y),(0.,1.),lambda a,b:(a[0]+b[0],a[1]*b[1]),(0,)),S(6,9),S(6,9))

options = HloPrintOptions()
options.print_large_constants = True
options.print_metadata = False
for name, (function, arguments) in functions.items():
    module = jax.jit(function).lower(*arguments).compiler_ir("hlo").as_hlo_module()
    (pathlib.Path(__file__).parent / f"jax_{name}.hlo").write_text(module.to_string(options))
