"""The operators of PyTorch that a .pt2 file or a TorchScript archive may call without being trusted.

They compute tensors, numbers and texts from such. The list of `aten` was made from the registry of torch 2.13, without
those for files (`save`, `from_file`), memory that belongs to others (`set_`), random seeds, training (backward passes,
optimizers), tests, and devices that no format is made for. An operator that a later torch adds is refused until it
stands here.
"""

from __future__ import annotations

_ATEN = """
Bool Complex ComplexImplicit Delete Float FloatImplicit Generator Int IntImplicit ScalarImplicit Size __and__
__contains__ __derive_index __getitem__ __iand__ __ilshift__ __interpolate __ior__ __irshift__ __is__ __isnot__
__ixor__ __lshift__ __not__ __or__ __range_length __round_to_zero_floordiv __rshift__ __upsample __upsample_bilinear
__upsample_nearest __xor__ _adaptive_avg_pool2d _adaptive_avg_pool3d _add_batch_dim _add_relu _add_relu_
_addmm_activation _aminmax _assert_async _assert_scalar _assert_tensor_metadata _autocast_to_full_precision
_autocast_to_reduced_precision _batch_norm_impl_index _batch_norm_no_update _batch_norm_with_update
_batch_norm_with_update_functional _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long
_cast_Short _cdist_forward _cholesky_solve_helper _choose_qparams_per_tensor _chunk_cat _coalesce _coalesced_
_compute_linear_combination _conj _conj_copy _conj_physical _conv_depthwise2d _convert_indices_from_coo_to_csr
_convert_indices_from_csr_to_coo _convolution _convolution_mode _copy_from _copy_from_and_resize _ctc_loss
_cudnn_attention_forward _cudnn_ctc_loss _cudnn_rnn _cudnn_rnn_flatten_weight _cummax_helper _cummin_helper _dimI
_dimV _dim_arange _efficient_attention_forward _efficientzerotensor _embedding_bag _embedding_bag_forward_only
_empty_affine_quantized _empty_per_channel_affine_quantized _euclidean_dist
_fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine
_fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fft_c2c _fft_c2r _fft_r2c _fill_mem_eff_dropout_mask_
_flash_attention_forward _flash_attention_forward_no_dropout_inplace _functional_assert_async
_functional_assert_scalar _functional_sym_constrain_range _functional_sym_constrain_range_for_size _fused_dropout
_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional _fused_rms_norm _fused_sdp_choice
_fw_primal _get_cpu_capability _get_tracing_state _grad_sum_to_size _grid_sampler_2d_cpu_fallback _grouped_mm
_has_compatible_shallow_copy_type _index_put_impl _indices _indices_copy _infer_size _int_mm _is_all_true _is_any_true
_is_zerotensor _lazy_clone _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd
_list_to_tensor _local_scalar_dense _log_softmax _logcumsumexp _lu_with_info _make_per_channel_quantized_tensor
_make_per_tensor_quantized_tensor _masked_scale _masked_softmax _mixed_dtypes_linear _mkldnn_transpose
_mkldnn_transpose_ _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
_native_multi_head_attention _ncf_unsqueeze _ncf_view _neg_view _neg_view_copy _nested_tensor_from_mask
_nested_tensor_from_mask_left_aligned _new_zeros_with_same_feature_meta _nnz _no_grad_embedding_renorm_ _no_grad_fill_
_no_grad_normal_ _no_grad_uniform_ _no_grad_zero_ _pack_padded_sequence _pack_sequence _pad_circular _pad_enum
_pad_packed_sequence _pdist_forward _philox_key_fold_in _philox_key_split _philox_normal _philox_normal_
_philox_uniform _philox_uniform_ _prelu_kernel _remove_batch_dim _reshape_alias _reshape_alias_copy _reshape_copy
_reshape_from_tensor _rowwise_prune _safe_softmax _sample_dirichlet _saturate_weight_to_fp16
_scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps _scaled_dot_product_cudnn_attention
_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable _scaled_mm _scaled_mm_v2
_set_item _shape_as_tensor _size_if_not_equal _slow_conv2d_forward _softmax _sparse_addmm _sparse_bsc_tensor_unsafe
_sparse_bsr_tensor_unsafe _sparse_compressed_tensor_unsafe _sparse_compressed_tensor_with_dims
_sparse_coo_tensor_unsafe _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors
_sparse_csc_tensor_unsafe _sparse_csr_prod _sparse_csr_sum _sparse_csr_tensor_unsafe _sparse_mask_projection
_sparse_mm _sparse_mm_reduce_impl _sparse_softmax _sparse_sparse_matmul _sparse_sum _stack _standard_gamma
_standard_gamma_grad _tensor_to_list _thnn_fused_gru_cell _thnn_fused_lstm_cell _to_copy _to_dense _to_sparse
_to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr _to_sparse_semi_structured _transform_bias_rescale_qkv
_transformer_encoder_layer_fwd _trilinear _unique _unique2 _unsafe_index _unsafe_index_put _unsafe_masked_index
_unsafe_masked_index_put_accumulate _unsafe_view _unwrap_optional _upsample_bicubic2d_aa _upsample_bilinear2d_aa
_upsample_lanczos2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
_use_cudnn_rnn_flatten_weight _use_miopen_ctc_loss _values _weight_int4pack_mm _weight_int4pack_mm_for_cpu
_weight_int4pack_mm_with_scales_and_zeros _weight_int8pack_mm _weight_norm _weight_norm_interface
_wrapped_linear_prepack _wrapped_quantized_linear_prepacked abs abs_ absolute absolute_ acos acos_ acosh acosh_
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
adaptive_max_pool3d add add_ addbmm addbmm_ addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ addmv addmv_ addr addr_
adjoint affine_grid_generator alias alias_copy all allclose alpha_dropout alpha_dropout_ amax amin aminmax angle any
append arange arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh
arctanh_ argmax argmin argsort argwhere as_strided as_strided_ as_strided_copy as_strided_scatter as_tensor asin asin_
asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d
baddbmm baddbmm_ bartlett_window batch_norm batch_norm_elemt batch_norm_gather_stats
batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats bernoulli bernoulli_ bilinear bin
binary_cross_entropy binary_cross_entropy_with_logits bincount binomial bitwise_and bitwise_and_ bitwise_left_shift
bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_
bitwise_xor bitwise_xor_ blackman_window block_diag bmm broadcast_shapes broadcast_tensors broadcast_to bucketize
can_cast capitalize cartesian_prod cat cauchy cauchy_ ccol_indices ccol_indices_copy cdist ceil ceil_ celu celu_
center chain_matmul chalf channel_shuffle cholesky cholesky_inverse cholesky_solve choose_qparams_optimized chr chunk
clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clear clip clip_ clone coalesce col2im col_indices
col_indices_copy column_stack combinations complex concat concatenate confirmed_by_owner conj conj_physical
conj_physical_ constant_pad_nd contiguous conv1d conv2d conv3d conv_depthwise3d conv_tbc conv_transpose1d
conv_transpose2d conv_transpose3d convolution convolution_overrideable copy copy_ copy_sparse_to_sparse
copy_sparse_to_sparse_ copysign copysign_ corrcoef cos cos_ cosh cosh_ cosine_embedding_loss cosine_similarity count
count_nonzero cov cpu cross cross_entropy_loss crow_indices crow_indices_copy ctc_loss cuda
cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu
cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable cummax cummin cumprod cumprod_ cumsum cumsum_
cumulative_trapezoid data deg2rad deg2rad_ degrees dense_dim dequantize det detach detach_ detach_copy device diag
diag_embed diagflat diagonal diagonal_copy diagonal_scatter dict diff digamma digamma_ dim dist div div_ divide
divide_ divmod dot dropout dropout_ dsplit dstack einsum element_size elu elu_ embedding embedding_bag
embedding_renorm embedding_renorm_ empty empty_like empty_permuted empty_quantized empty_strided endswith eq eq_ equal
erf erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expand expand_as expand_copy expandtabs expm1 expm1_
exponential exponential_ extend eye fabs factorial fake_quantize_per_channel_affine
fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask
fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16
fbgemm_pack_quantized_matrix feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_ fft_fft
fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift
fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn fill fill_
fill_diagonal_ find fix fix_ flatten flatten_dense_tensors flip fliplr flipud float_power float_power_ floor floor_
floor_divide floor_divide_ floordiv fmax fmin fmod fmod_ format frac frac_ fractional_max_pool2d fractional_max_pool3d
frexp frobenius_norm full full_like fused_moving_avg_obs_fake_quant gamma gather gcd gcd_ ge ge_ gelu gelu_ geometric
geometric_ geqrf ger get get_device glu glu_jvp grad gradient greater greater_ greater_equal greater_equal_
grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru gru_cell gt gt_ hamming_window hann_window hardshrink
hardsigmoid hardsigmoid_ hardswish hardswish_ hardtanh hardtanh_ has_torch_function hash hash_tensor heaviside
heaviside_ hex hinge_embedding_loss histc histogram histogramdd hsplit hspmm hstack huber_loss hypot hypot_ i0 i0_
igamma igamma_ igammac igammac_ im2col imag index index_add index_add_ index_copy index_copy_ index_fill index_fill_
index_put index_put_ index_reduce index_reduce_ index_select indices indices_copy inner insert instance_norm int_repr
inverse is_autocast_cpu_enabled is_autocast_enabled is_coalesced is_complex is_conj is_contiguous is_distributed
is_floating_point is_grad_enabled is_inference is_neg is_non_overlapping_and_dense is_nonzero is_owner is_same_size
is_scripting is_set_to is_signed is_strides_like_format is_vulkan_available isalnum isalpha isclose isdecimal isdigit
isfinite isidentifier isin isinf islower isnan isneginf isnumeric isposinf isprintable isreal isspace istft istitle
isupper item items join kaiser_window keys kl_div kron kthvalue l1_loss layer_norm lcm lcm_ ldexp ldexp_ le le_
leaky_relu leaky_relu_ len lerp lerp_ less less_ less_equal less_equal_ lgamma lgamma_ lift lift_fresh lift_fresh_copy
linalg__powsum linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cross linalg_det linalg_diagonal linalg_eig
linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor
linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve
linalg_matmul linalg_matrix_exp linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm
linalg_pinv linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals
linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm linear linspace list ljust
local_value log log10 log10_ log1p log1p_ log2 log2_ log_ log_normal log_normal_ log_sigmoid log_sigmoid_forward
log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_and_ logical_not logical_not_ logical_or
logical_or_ logical_xor logical_xor_ logit logit_ logspace logsumexp lower lstm lstm_cell lstrip lt lt_ lu_solve
lu_unpack mH mT margin_ranking_loss masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select
mathremainder matmul matrix_H matrix_exp matrix_power max max_pool1d max_pool1d_with_indices max_pool2d
max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d maximum mean median meshgrid min
minimum mish mish_ mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear mkldnn_max_pool2d mkldnn_max_pool3d
mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight mkldnn_rnn_layer mm mode modf moveaxis movedim mse_loss
msort mul mul_ multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward multinomial multiply multiply_
mv mvlgamma mvlgamma_ nan_to_num nan_to_num_ nanmean nanmedian nanquantile nansum narrow narrow_copy native_batch_norm
native_channel_shuffle native_dropout native_group_norm native_layer_norm native_norm ne ne_ neg neg_ negative
negative_ nested_to_padded_tensor new_empty new_empty_strided new_full new_ones new_zeros nextafter nextafter_
nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward nll_loss_nd nonzero nonzero_numpy nonzero_static norm
norm_except_dim normal normal_ normal_functional not_equal not_equal_ nuclear_norm numel numpy_T oct one_hot ones
ones_like ord orgqr ormqr outer owner owner_name pad pad_sequence pairwise_distance partition pdist percentFormat
permute permute_copy pin_memory pinverse pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar polygamma
polygamma_ pop popitem positive pow pow_ prelu prod promote_types put put_ q_per_channel_axis q_per_channel_scales
q_per_channel_zero_points q_scale q_zero_point qr qscheme quantile quantize_per_channel quantize_per_tensor
quantize_per_tensor_dynamic quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell
quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell rad2deg
rad2deg_ radians rand rand_like randint randint_like randn randn_like random random_ randperm range ravel real
reciprocal reciprocal_ reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 relu6_ relu_ remainder remainder_
remove renorm renorm_ repeat repeat_interleave replace replication_pad1d replication_pad2d replication_pad3d
requires_grad_ reshape reshape_as resize resize_ resize_as resize_as_ resize_as_sparse resize_as_sparse_ resolve_conj
resolve_neg result_type reverse rfind rindex rjust rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90
round round_ row_indices row_indices_copy row_stack rpartition rrelu rrelu_ rrelu_with_noise rrelu_with_noise_
rrelu_with_noise_functional rsplit rsqrt rsqrt_ rstrip rsub scalar_tensor scaled_dot_product_attention scatter
scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ searchsorted segment_reduce select select_copy
select_scatter selu selu_ set_grad_enabled setdefault sgn sgn_ sigmoid sigmoid_ sign sign_ signbit silu silu_ sin sin_
sinc sinc_ sinh sinh_ size slice slice_copy slice_inverse slice_scatter slogdet slow_conv3d slow_conv3d_forward
slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d smm smooth_l1_loss
soft_margin_loss softmax softplus softshrink sort sorted sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor
sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor sparse_dim sparse_mask sparse_resize sparse_resize_
sparse_resize_and_clear sparse_resize_and_clear_ sparse_sampled_addmm special_airy_ai special_bessel_j0
special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_u
special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_digamma special_entr special_erf special_erfc
special_erfcx special_erfinv special_exp2 special_expit special_expm1 special_gammainc special_gammaincc
special_gammaln special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1
special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p special_log_ndtr
special_log_softmax special_logit special_logsumexp special_modified_bessel_i0 special_modified_bessel_i1
special_modified_bessel_k0 special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri
special_polygamma special_psi special_round special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
special_shifted_chebyshev_polynomial_w special_sinc special_softmax special_spherical_bessel_j0 special_xlog1py
special_xlogy special_zeta split split_copy split_with_sizes split_with_sizes_copy splitlines sqrt sqrt_ square
square_ squeeze squeeze_ squeeze_copy sspaddmm stack startswith std std_mean stft storage_offset str stride strip sub
sub_ subtract subtract_ sum sum_to_size svd swapaxes swapaxes_ swapcase swapdims swapdims_ sym_constrain_range
sym_constrain_range_for_size sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride t t_ t_copy take
take_along_dim tan tan_ tanh tanh_ tensor tensor_split tensordot thnn_conv2d threshold threshold_ tile title to
to_dense to_here to_mkldnn to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr topk
trace transpose transpose_ transpose_copy trapezoid trapz triangular_solve tril tril_ tril_indices triplet_margin_loss
triu triu_ triu_indices true_divide true_divide_ trunc trunc_ type_as unbind unbind_copy unflatten
unflatten_dense_tensors unfold unfold_copy uniform uniform_ unique_consecutive unique_dim unique_dim_consecutive
unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ unsqueeze_copy update upper upsample_bicubic2d
upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
values values_copy vander var var_mean vdot view view_as view_as_complex view_as_complex_copy view_as_real
view_as_real_copy view_copy vsplit vstack wait warn where xlogy xlogy_ zero zero_ zeros zeros_like zfill
"""
# Namespaces whose operators all only compute.
_COMPUTING = frozenset((
    "prims", "quantized", "_quantized", "quantized_decomposed", "mkldnn", "mkldnn_prepacked", "sparse", "torchao",
))  # fmt: skip
_TORCHVISION = frozenset((
    "nms", "qnms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d", "_roi_align_forward",
))  # fmt: skip
_TORCHAUDIO = frozenset(
    ("_lfilter", "_lfilter_core_loop", "forced_align", "overdrive", "rnnt_loss", "rnnt_loss_forward")
)
_PRIM = frozenset((
    "NumToTensor", "RaiseException", "StringIndex", "TupleIndex", "TupleUnpack", "Uninitialized", "ChunkSizes",
    "ConstantChunk", "EnumName", "EnumValue", "IfThenElse", "abs", "data", "device", "dtype", "index", "is_cpu",
    "is_cuda", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized", "is_sparse", "is_sparse_csr",
    "is_vulkan", "is_xla", "is_xpu", "is_ipu", "is_maia", "itemsize", "layout", "max", "min", "name", "nbytes",
    "rangelist", "requires_grad", "tolist", "type", "unchecked_cast", "unchecked_unwrap_optional", "VarConcat",
    "ModuleContainerIndex", "VarStack", "Print", "id", "isinstance", "awaitable_nowait", "awaitable_wait", "grad",
))  # fmt: skip
ALLOWED_ATEN = frozenset(_ATEN.split())
_BY_NAMESPACE = {"aten": ALLOWED_ATEN, "prim": _PRIM, "torchvision": _TORCHVISION, "torchaudio": _TORCHAUDIO}
# Namespaces of torch's own that no model needs: they reach other processes, or are parts of its compilers.
_REFUSED = frozenset((
    "c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor", "inductor", "inductor_prims",
    "profiler", "static_runtime", "export", "rngprims", "_test", "onnx", "_native", "image", "video_reader",
    "debugprims", "debug_mode_ops", "torch", "mkl", "onednn", "quantization", "io", "rpc",
))  # fmt: skip


def is_allowed(space: str, name: str) -> bool:
    """Return whether an operator only computes."""
    return space in _COMPUTING or name in _BY_NAMESPACE.get(space, ())


def is_foreign(space: str) -> bool:
    """Return whether a namespace is neither torch's own nor that of a library that is known."""
    return space not in _COMPUTING | _REFUSED | _BY_NAMESPACE.keys()
