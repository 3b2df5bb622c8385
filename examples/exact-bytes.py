batch_size = 12
compile = False
dtype = 'float16'
