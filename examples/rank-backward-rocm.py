batch_size = 16
gradient_accumulation_steps = 32
compile = False
dtype = 'bfloat16'
