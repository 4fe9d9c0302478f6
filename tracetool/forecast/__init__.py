"""Time, power and energy of a model from its configuration: no trace, nothing measured of the model itself.

Modules in the order in which data pass through them:

- Cases: ``case``, ``grid``, ``tables``, ``fields``, ``explore``, ``request_checks``.
- A model from its configuration: ``config``, ``model_names``, ``model``, ``architecture``,
  ``encoder_weights``, ``quantization``.
- Layers of decoders: ``decoder``, ``parts``, ``attention``, ``latent_attention``, ``recurrent``,
  ``experts``, ``token_sampling``, ``vocabulary_sorts``.
- Models run kernel by kernel: ``graph``, ``vision``, ``transformer_blocks``, ``text_encoders``,
  ``transformers_eager``, ``diffusion``, ``latent_decoders``, ``pipeline_output``, ``generation``.
- Graphs and tables of operators: ``operator_model``, ``operator_rows``, ``exported``, ``onnx_graph``,
  ``torch_graph``.
- Passes and their price: ``passes``, ``steps``, ``pricing``, ``power_cap``, ``stage_sends``, ``host``.
- Inference: ``language``, ``serving``, ``engine``, ``replicas``, ``replica_memory``, ``memory``.
- Training: ``training_step``, ``training_passes``, ``training_operators``, ``training_experts``,
  ``training_memory``, ``saturation``.
- Outcome and checks: ``forecast``, ``figures``, ``trace_comparison``, ``torch_check``, ``meta_trace``.

Packages: ``architectures``, one file per model architecture.
"""
