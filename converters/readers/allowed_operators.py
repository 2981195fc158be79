"""The TensorFlow operators that a SavedModel or TFLite file may hold without being trusted.

TensorFlow itself says that models are programs. The allowed operators compute tensors from tensors, keep variables, and
call functions of the model. None opens a file, a socket or a process, prints, runs Python, decodes text or images, or
addresses shared memory by name.

The list was made from the registry of TensorFlow 2.21: operators with neither state nor text among their arguments,
without those for training, debugging or files (`ImmutableConst` maps a file by an attribute, `PrintV2` writes to one).
Variables, control flow, random numbers and the kernels that Keras 2 keeps beside the loop of an LSTM or a GRU, for GPUs
alone, were added by hand.
"""

from __future__ import annotations

_NAMES = """
Abs AccumulateNV2 Acos Acosh Add AddN AddV2 AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation All Angle Any
ApproxTopK ApproximateEqual ArgMax ArgMin Asin Asinh Assert Assign AssignAddVariableOp AssignSubVariableOp
AssignVariableOp Atan Atan2 Atanh AvgPool AvgPool3D BandedTriangularSolve BatchMatMul BatchMatMulV2 BatchMatMulV3
BatchToSpace BatchToSpaceND BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1
BesselK1e BesselY0 BesselY1 Betainc BiasAdd BiasAddV1 Bincount Bitcast BitwiseAnd BitwiseOr BitwiseXor BlockLSTM
BlockLSTMV2 BroadcastArgs BroadcastGradientArgs BroadcastTo Bucketize Case Cast Ceil CheckNumerics CheckNumericsV2
Cholesky ClipByValue CombinedNonMaxSuppression Complex ComplexAbs Concat ConcatOffset ConcatV2 Conj ConjugateTranspose
Const Conv Conv2D Conv2DBackpropInput Conv3D Conv3DBackpropInput Conv3DBackpropInputV2 Cos Cosh CropAndResize Cross
CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3 CudnnRNNV2 CudnnRNNV3
Cumprod Cumsum CumulativeLogsumexp DataFormatDimMap DataFormatVecPermute Dawsn DeepCopy DenseBincount DepthToSpace
DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput Diag DiagPart Digamma Dilation2D DisableCopyOnRead Div DivNoNan
DynamicPartition DynamicStitch Eig Einsum Elu Empty EmptyTensorList EnsureShape Enter Equal Erf Erfc Erfinv
EuclideanNorm Exit Exp ExpandDims Expint Expm1 ExtractImagePatches ExtractVolumePatches FFT FFT2D FFT3D FFTND FakeParam
FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel Fill Floor FloorDiv FloorMod For
FresnelCos FresnelSin FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 GRUBlockCell Gather GatherNd GatherV2 Greater
GreaterEqual GuaranteeConst HSVToRGB HistogramFixedWidth IFFT IFFT2D IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND
Identity IdentityN If Igamma Igammac Imag ImageProjectiveTransformV2 ImageProjectiveTransformV3 InTopK InTopKV2 Inv
Invert InvertPermutation IsFinite IsInf IsNan IsVariableInitialized L2Loss LRN LSTMBlockCell LeakyRelu LeftShift Less
LessEqual Lgamma LinSpace ListDiff Log Log1p LogMatrixDeterminant LogSoftmax LogicalAnd LogicalNot LogicalOr LoopCond
LowerBound Lu MatMul MatrixBandPart MatrixDeterminant MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3
MatrixDiagV2 MatrixDiagV3 MatrixExponential MatrixInverse MatrixLogarithm MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3
MatrixSolve MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Max MaxPool MaxPool3D MaxPoolV2 MaxPoolWithArgmax
Maximum Mean Merge Min Minimum MirrorPad Mod Mul MulNoNan Multinomial Ndtri Neg NextAfter NextIteration NoOp
NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5
NonMaxSuppressionWithOverlaps NotEqual NthElement OneHot OnesLike Pack Pad PadV2 ParallelDynamicStitch PartitionedCall
Placeholder PlaceholderV2 PlaceholderWithDefault Polygamma PopulationCount Pow PreventGradient Prod Qr
QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 RFFT RFFT2D RFFT3D RFFTND RGBToHSV
RaggedBincount RaggedGather RaggedRange RaggedTensorToSparse RaggedTensorToTensor RandomShuffle RandomStandardNormal
RandomUniform RandomUniformInt Range Rank ReadVariableOp Real RealDiv Reciprocal Relu Relu6 Reshape ResizeArea
ResizeBicubic ResizeBilinear ResizeNearestNeighbor ResourceGather ResourceGatherNd Reverse ReverseSequence ReverseV2
RightShift Rint Roll Round Rsqrt ScaleAndTranslate ScatterNd SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2
SegmentProd SegmentProdV2 SegmentSum SegmentSumV2 Select SelectV2 SelfAdjointEig SelfAdjointEigV2 Selu Shape ShapeN
Sigmoid Sign Sin Sinh Size Slice Snapshot Softmax SoftmaxCrossEntropyWithLogits Softplus Softsign SpaceToBatch
SpaceToBatchND SpaceToDepth SparseAdd SparseBincount SparseConcat SparseDenseCwiseAdd SparseDenseCwiseDiv
SparseDenseCwiseMul SparseFillEmptyRows SparseReduceMax SparseReduceSum SparseReorder SparseReshape SparseSegmentMean
SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments SparseSegmentSum
SparseSegmentSumWithNumSegments SparseSlice SparseSoftmax SparseSoftmaxCrossEntropyWithLogits SparseSplit
SparseTensorDenseAdd SparseTensorDenseMatMul SparseToDense Spence Split SplitV Sqrt Square SquaredDifference Squeeze
StatefulPartitionedCall StatelessCase StatelessIf StatelessMultinomial StatelessParameterizedTruncatedNormal
StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomGetAlg StatelessRandomGetKeyCounter
StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson
StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle StatelessTruncatedNormal
StatelessTruncatedNormalV2 StatelessWhile StopGradient StridedSlice Sub Sum Svd Switch Tan Tanh TensorArrayCloseV3
TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 TensorArraySplitV3
TensorArrayV3 TensorArrayWriteV3 TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListElementShape
TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter TensorListScatterIntoExistingList
TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack TensorScatterAdd TensorScatterMax TensorScatterMin
TensorScatterSub TensorScatterUpdate TensorStridedSliceUpdate Tile TopK TopKV2 Transpose TridiagonalMatMul
TridiagonalSolve TruncateDiv TruncateMod TruncatedNormal Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack
UnravelIndex UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum UpperBound VarHandleOp
VarIsInitializedOp Variable VariableShape VariableV2 Where While Xdivy Xlog1py Xlogy ZerosLike Zeta
"""
ALLOWED = frozenset(_NAMES.split())

# Save and restore the variables of a model, in functions that nothing else calls.
SAVING = frozenset(
    ("MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename", "StaticRegexFullMatch", "StringJoin")
)
# The part of SAVING that may run when a model is loaded; it reads the variables' file and no other.
RESTORING = frozenset({"RestoreV2"})

# Compute with text, parse tf.Examples and decode images: allowed where a model with strings is served. Tables of words
# are filled from tensors of the model; one that reads a file (InitializeTableFromTextFileV2) has to be trusted.
_STRING_NAMES = """
AsString DecodeAndCropJpeg DecodeBase64 DecodeBmp DecodeCSV DecodeGif DecodeImage DecodeJSONExample DecodeJpeg
DecodePaddedRaw DecodePng DecodeRaw DecodeWav EncodeBase64 EncodeJpeg EncodeJpegVariableQuality EncodePng
ExtractJpegShape Fingerprint HashTableV2 InitializeTableV2 LookupTableExportV2 LookupTableFindV2
LookupTableImportV2 LookupTableInsertV2 LookupTableSizeV2 MutableDenseHashTableV2 MutableHashTableV2 ParseExample
ParseExampleV2 ParseSequenceExample ParseSequenceExampleV2 ParseSingleExample ParseSingleSequenceExample
ParseTensor ReduceJoin RegexFullMatch RegexReplace SerializeTensor SparseCrossV2 StaticRegexFullMatch
StaticRegexReplace StringFormat StringJoin StringLength StringLower StringNGrams StringSplit StringSplitV2
StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper Substr
UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeTranscode UnsortedSegmentJoin
"""
STRING_OPERATORS = frozenset(_STRING_NAMES.split())

TRUST = "where you trust whoever made it, give --trust"
_EFFECTS = {
    **dict.fromkeys(("EagerPyFunc", "PyFunc", "PyFuncStateless"), "runs Python"),
    **dict.fromkeys(("ReadFile", "RestoreV2", "WholeFileReaderV2"), "reads files"),
    **dict.fromkeys(("SaveV2", "WriteFile"), "writes files"),
    "MatchingFiles": "lists files",
    "PrintV2": "prints, or writes files",
}
_TEXT_PREFIXES = ("String", "Regex", "StaticRegex", "Unicode", "Substr", "AsString", "ReduceJoin", "DecodeRaw")


def effect_of(operator: str) -> str:
    """Return what an operator that is not allowed does, as the end of a sentence."""
    other = "handles text that no format carries" if operator.startswith(_TEXT_PREFIXES) else "may do more than compute"
    return _EFFECTS.get(operator, other)
