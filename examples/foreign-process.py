batch_size = 4
gradient_accumulation_steps = 128
compile = False
dtype = 'bfloat16'
